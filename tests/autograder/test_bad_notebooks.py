"""Notebooks that are none, or not what was handed out: `check`, `submit` and `grade` each say one clear thing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import nbformat
import pytest
from classroom import DAY, RIGHT, TASK, Classroom, cell, nothing_recorded, outcome_of, stand_in
from nbformat import NotebookNode
from typer.testing import CliRunner, Result

from autograder.course.notebooks import cells_before_check, compare_with_release, restored
from autograder.course.reading import CODE_LIMIT, UnreadableNotebookError, read_notebook
from autograder.course.submission import SubmissionRefusedError
from autograder.grading import work
from autograder.records.gradebook import recorded_points
from fxopt_workbench.cli import app

FILE = f"{TASK.notebook}.ipynb"


@pytest.fixture(scope="module", autouse=True)
def _commands() -> None:
    from autograder.commands.cli import register

    if not any(command.callback and command.callback.__name__ == "submit" for command in app.registered_commands):
        register(app)


def fxopt(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env={"COLUMNS": "400", "NO_COLOR": "1"})


def changed(change: Callable[[NotebookNode], Any]) -> Callable[[Classroom], bytes]:
    def make(classroom: Classroom) -> bytes:
        notebook = classroom.answered(RIGHT)
        change(notebook)
        return json.dumps(notebook).encode()

    return make


def remove(*names: str) -> Callable[[Classroom], bytes]:
    def change(notebook: NotebookNode) -> None:
        for name in names:
            notebook.cells.remove(cell(notebook, name))

    return changed(change)


def _version_3(notebook: NotebookNode) -> None:
    old = nbformat.convert(deepcopy(notebook), 3)
    notebook.clear()
    notebook.update(old)


def _huge_outputs(notebook: NotebookNode) -> None:
    output = {"output_type": "stream", "name": "stdout", "text": "x" * 30_000_000}
    cell(notebook, TASK.answer_id).outputs = [output]


def _without_ids(notebook: NotebookNode) -> None:
    for item in notebook.cells:
        item.pop("id")


def _second_answer(notebook: NotebookNode) -> None:
    copy = nbformat.from_dict(dict(cell(notebook, TASK.answer_id)))
    copy["source"] = "class GraphRecorder: pass"
    notebook.cells.append(copy)


def _bonus(notebook: NotebookNode) -> None:
    bonus = nbformat.v4.new_code_cell("100")
    bonus.metadata["nbgrader"] = {"grade": True, "grade_id": "bonus", "points": 100, "locked": True, "solution": False}
    notebook.cells.append(bonus)
    cell(notebook, TASK.name).metadata["nbgrader"]["points"] = 1000


def _odd_metadata(notebook: NotebookNode) -> None:
    for odd in (
        "text",
        5,
        ["x"],
        {"grade_id": ["a"]},
        {"grade_id": {"b": 1}},
        {"schema_version": 1, "grade_id": "new"},
    ):
        extra = nbformat.v4.new_code_cell("1")
        extra.metadata["nbgrader"] = odd
        notebook.cells.insert(0, extra)


def _as_text(name: str) -> Callable[[NotebookNode], None]:
    def change(notebook: NotebookNode) -> None:
        item = cell(notebook, name)
        item.cell_type = "markdown"
        item.pop("outputs"), item.pop("execution_count")

    return change


def _set(**changes: Any) -> Callable[[NotebookNode], None]:
    return lambda notebook: notebook.metadata.update(changes)


JULIA = {"name": "julia-1.11", "display_name": "Julia", "language": "julia"}

UNREADABLE: dict[str, tuple[Callable[[Classroom], bytes], str]] = {
    "empty": (lambda _: b"", "not JSON"),
    "text": (lambda _: b"hello", "not JSON"),
    "binary": (lambda _: bytes(range(256)) * 99, "not JSON"),
    "cut short": (lambda room: json.dumps(room.released).encode()[:-40], "not JSON"),
    "a number": (lambda _: b"5", "not a notebook"),
    "a list": (lambda _: b"[]", "not a notebook"),
    "an object": (lambda _: b'{"cells": 5}', "not a notebook"),
    "nested too deeply": (lambda _: b"[" * 100_000, "not JSON"),
    "too much code": (
        changed(lambda notebook: cell(notebook, TASK.answer_id).update(source="x = 1\n" * (CODE_LIMIT // 4))),
        "MiB of code",
    ),
}

GRADED: dict[str, tuple[Callable[[Classroom], bytes], str]] = {
    "no kernel": (changed(lambda notebook: notebook.metadata.clear()), ""),
    "invalid UTF-8": (changed(lambda notebook: None), "not in UTF-8"),
    "kernel of another language": (changed(_set(kernelspec=JULIA)), "julia"),
    "format 3": (changed(_version_3), ""),
    "thirty megabytes of output": (changed(_huge_outputs), ""),
    "cells without ids": (changed(_without_ids), ""),
    "lone surrogates": (changed(lambda notebook: notebook.cells[0].update(source="\ud800")), "ex01-introduction"),
    "an answer twice": (changed(_second_answer), TASK.answer_id),
    "a check removed": (remove(TASK.name), TASK.name),
    "a check and the text before it removed": (remove(TASK.name, f"{TASK.name}-task"), TASK.name),
    "a locked cell changed": (
        changed(lambda notebook: cell(notebook, "ex01-setup").update(source="import os; os._exit(0)")),
        "ex01-setup",
    ),
    "a locked cell that a tag leaves out": (
        changed(lambda notebook: cell(notebook, "ex01-setup").metadata.update(tags=["not-graded"])),
        "",
    ),
    "a locked cell made text": (changed(_as_text("ex01-setup")), "ex01-setup"),
    "an answer made text": (changed(_as_text(TASK.answer_id)), TASK.answer_id),
    "graded cells of one's own and other points": (changed(_bonus), ""),
    "odd metadata": (changed(_odd_metadata), ""),
}


def content_of(name: str, classroom: Classroom) -> bytes:
    make, _ = (UNREADABLE | GRADED)[name]
    content = make(classroom)
    return content.replace(b"GraphRecorder", b"Graph\xff\xfe", 1) if name == "invalid UTF-8" else content


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_read_is_refused_in_one_line(classroom: Classroom, name: str) -> None:
    expected = UNREADABLE[name][1]
    classroom.workspace_file.write_bytes(content_of(name, classroom))
    with pytest.raises(UnreadableNotebookError, match=expected) as caught:
        read_notebook(classroom.workspace_file)
    line = str(caught.value)
    assert line.startswith(FILE)
    assert "\n" not in line
    assert len(line) < 400
    for command in (["check", str(classroom.workspace_file)], ["submit", TASK.notebook]):
        result = fxopt(*command)
        assert result.exit_code == 2, result.output
        assert expected in result.output
        assert "Traceback" not in result.output
    assert not classroom.course.submitted.exists()


def test_a_missing_notebook_and_a_folder_in_its_place(classroom: Classroom) -> None:
    classroom.workspace_file.unlink()
    assert "no such notebook" in fxopt("submit", TASK.notebook).output
    classroom.workspace_file.mkdir()
    for command in (["check", str(classroom.workspace_file)], ["submit", TASK.notebook]):
        result = fxopt(*command)
        assert result.exit_code == 2
        assert "this is a folder" in result.output


def test_check_answers_in_json_with_exit_codes(classroom: Classroom) -> None:
    path = classroom.workspace_file
    every = {"notebook", "problems", "tasks", "sandboxed", "seconds", "phases", "saved"}
    blank = fxopt("check", str(path), "--json")
    assert blank.exit_code == 1
    answer = json.loads(blank.stdout)
    assert set(answer) == every
    assert [task["status"] for task in answer["tasks"]] == ["not written"] * len(answer["tasks"])
    assert {"cell", "task", "title", "status", "messages"} <= set(answer["tasks"][0])

    path.write_text("nothing")
    unreadable = fxopt("check", str(path), "--json")
    assert unreadable.exit_code == 2
    answer = json.loads(unreadable.stdout)
    assert set(answer) == every
    assert answer["tasks"] == []
    assert len(answer["problems"]) == 1

    other = path.with_name("my_own_notes.ipynb")
    nbformat.write(nbformat.v4.new_notebook(), other)
    assert fxopt("check", str(other), "--json").exit_code == 2


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("a check removed", [TASK.name]),
        ("a check and the text before it removed", [TASK.name, f"{TASK.name}-task"]),
        ("an answer twice", [TASK.answer_id]),
    ],
)
def test_submit_refuses_and_names_the_cells(classroom: Classroom, name: str, cells: list[str]) -> None:
    classroom.workspace_file.write_bytes(content_of(name, classroom))
    result = fxopt("submit", TASK.notebook)
    assert result.exit_code == 2
    assert all(re.search(rf"\b{item}\b", result.output) for item in cells)
    assert nothing_recorded(classroom.course)


def test_submit_hands_in_what_grading_puts_right_and_says_so(classroom: Classroom) -> None:
    for name in ("a locked cell changed", "a locked cell made text"):
        classroom.workspace_file.write_bytes(content_of(name, classroom))
        result = fxopt("submit", TASK.notebook)
        assert result.exit_code == 0
        assert "Note:" in result.output
        assert "ex01-setup" in result.output


def test_everything_bad_is_graded_beside_what_is_good(classroom: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "grade_notebook", stand_in)
    for name in UNREADABLE | GRADED:
        classroom.place(content_of(name, classroom), name)
    folder = classroom.place(b"", "a folder in its place")
    folder.unlink()
    folder.mkdir()
    classroom.place(b"", "a notebook of one's own").with_name("scratch.ipynb").write_text("nothing")
    classroom.place(content_of("no kernel", classroom), "zoe")
    (classroom.course.submitted / "zoe" / DAY / "timestamp.txt").write_text("yesterday, I think")

    result = fxopt("grade")
    assert result.exit_code == 0, result.output
    assert "left aside: scratch.ipynb" in result.output
    assert "Traceback" not in result.output
    graded = classroom.grade()
    possible = 15.0
    for name, (_, expected) in UNREADABLE.items():
        outcome = graded[name].outcome
        assert outcome is not None, graded[name]
        assert expected in outcome["problems"][0]
        assert all(task["status"] == "error" and task["points"] == 0 for task in outcome["tasks"])
        score = recorded_points(classroom.course, name, DAY, TASK.notebook)
        assert score is not None
        assert score[0] == 0
        assert score[1] >= possible
        page = classroom.feedback(name)
        assert "could not be read" in page
        assert expected in page
    assert "this is a folder" in str(outcome_of_problems(graded["a folder in its place"].outcome))
    for name in [*GRADED, "zoe"]:
        assert outcome_of(graded[name])["status"] == "passed", (name, outcome_of(graded[name])["messages"])
        score = recorded_points(classroom.course, name, DAY, TASK.notebook)
        assert score is not None
        # The stand-in says nothing of the other tasks, and silence is no points.
        assert score[0] == outcome_of(graded[name])["max_points"] == possible
        expected = GRADED.get(name, (None, ""))[1]
        outcome = graded[name].outcome
        assert outcome is not None
        assert expected in str(outcome["problems"])
        assert bool(outcome["problems"]) == bool(expected)


def outcome_of_problems(outcome: dict[str, Any] | None) -> list[str]:
    assert outcome is not None
    problems: list[str] = outcome["problems"]
    return problems


@pytest.mark.parametrize("name", ["an answer made text", "thirty megabytes of output"])
def test_what_was_put_right_is_really_run(classroom: Classroom, name: str) -> None:
    classroom.place(content_of(name, classroom), "me")
    assert outcome_of(classroom.grade()["me"])["status"] == "passed"


def test_a_comparison_names_each_kind_of_difference(classroom: Classroom) -> None:
    notebook, release = classroom.released, classroom.released
    assert compare_with_release(notebook, release).problems() == []
    notebook.cells.remove(cell(notebook, TASK.name))
    cell(notebook, "ex01-setup").source = "other"
    _as_text(TASK.answer_id)(notebook)
    notebook.cells.append(cell(release, f"{TASK.name}-task"))
    found = compare_with_release(notebook, release)
    assert (found.missing, found.changed) == ([TASK.name], ["ex01-setup"])
    assert (found.retyped, found.repeated) == ([TASK.answer_id], [f"{TASK.name}-task"])
    assert len(found.problems()) == 4


def test_restoring_brings_every_cell_of_the_release_back_once_and_in_its_place(classroom: Classroom) -> None:
    notebook, release = classroom.released, classroom.released
    kept = cell(notebook, "ex01-setup")
    notebook.cells = [kept]
    notebook.cells.append(nbformat.v4.new_code_cell("mine = 1"))
    result = restored(notebook, release)
    names = [item.metadata.get("nbgrader", {}).get("grade_id") for item in result.cells]
    expected = [item.metadata.get("nbgrader", {}).get("grade_id") for item in release.cells]
    assert [name for name in names if name] == [name for name in expected if name]
    assert cell(result, f"{TASK.name}-task").source == cell(release, f"{TASK.name}-task").source
    assert cell(result, TASK.answer_id).source == ""  # a blank answer would take the place of one in another cell
    assert any(item.source == "mine = 1" for item in result.cells)
    ids = [item["id"] for item in result.cells]
    assert len(ids) == len(set(ids))


def test_refusals_are_of_their_own_kind(classroom: Classroom) -> None:
    from autograder.course.submission import submit

    classroom.workspace_file.write_bytes(content_of("a check removed", classroom))
    with pytest.raises(SubmissionRefusedError, match="was not submitted"):
        submit(classroom.course, TASK.notebook)


def test_a_cell_of_ones_own_cannot_go_by_the_name_of_another(classroom: Classroom) -> None:
    notebook, release = classroom.released, classroom.released
    own = nbformat.v4.new_code_cell("1 / 0")
    own["id"] = TASK.answer_id
    notebook.cells.insert(0, own)
    cells = cells_before_check(restored(notebook, release), TASK)
    assert [item["id"] for item in cells].count(TASK.answer_id) == 1
    assert any(item["source"] == "1 / 0" for item in cells)

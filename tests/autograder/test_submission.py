"""Handing in: copied whole, with its time, earlier copies kept; and answers that were not saved are noticed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from classroom import BLANK, DAY, RIGHT, TASK, Classroom, cell, nothing_recorded
from nbgrader.utils import parse_utc

from autograder.course import submission
from autograder.course.submission import UnsavedAnswersError, check_saved, submit
from autograder.course.tasks import UnknownTaskError


def test_a_submission_is_the_file_with_its_time(classroom: Classroom) -> None:
    nbformat.write(classroom.answered(RIGHT), classroom.workspace_file)
    handed_in = submit(classroom.course, "ex_01")
    assert handed_in.path.read_bytes() == classroom.workspace_file.read_bytes()
    assert handed_in.path == classroom.course.submitted / "me" / DAY / f"{TASK.notebook}.ipynb"
    stamp = parse_utc((handed_in.path.parent / "timestamp.txt").read_text())
    assert abs(stamp.timestamp() - handed_in.path.stat().st_mtime) < 60
    assert {path.name for path in handed_in.path.parent.iterdir()} == {handed_in.path.name, "timestamp.txt"}
    assert handed_in.warnings == ()


def test_the_name_of_the_student(classroom: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FXOPT_STUDENT", "ada")
    assert submit(classroom.course, "ex_01").student == "ada"
    assert submit(classroom.course, "ex_01", "grace").path.parts[-3] == "grace"


def test_earlier_copies_are_kept(classroom: Classroom) -> None:
    for answer in (BLANK, RIGHT):
        classroom.hand_in(answer)
    history = sorted((classroom.course.records / "history" / "me" / DAY).glob("*.ipynb"))
    assert len(history) == 2
    assert [RIGHT in cell(nbformat.read(path, 4), TASK.answer_id).source for path in history] == [False, True]


def test_a_submission_that_is_interrupted_leaves_the_earlier_one_whole(
    classroom: Classroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = classroom.hand_in(BLANK)
    before = path.read_bytes(), (path.parent / "timestamp.txt").read_text()
    original = Path.replace

    def interrupted(self: Path, target: Path) -> Path:
        if target.name == path.name:
            raise KeyboardInterrupt
        return original(self, target)

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        classroom.hand_in(RIGHT)
    assert (path.read_bytes(), (path.parent / "timestamp.txt").read_text()) == before


def test_an_unknown_exercise_copies_nothing(classroom: Classroom) -> None:
    with pytest.raises(UnknownTaskError, match="ex_99"):
        submit(classroom.course, "ex_99")
    assert nothing_recorded(classroom.course)


@dataclass
class Shell:
    """What `check_saved` looks at of an IPython shell."""

    user_ns: dict[str, Any] = field(default_factory=dict)


@pytest.fixture
def ran(classroom: Classroom, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cells that the learner ran, oldest first; the saved file holds the right answer."""
    nbformat.write(classroom.answered(RIGHT), classroom.workspace_file)
    shell = Shell({"In": [""]})
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: shell)
    history: list[str] = shell.user_ns["In"]
    return history


def test_saved_answers_are_fine(ran: list[str]) -> None:
    check_saved("ex_01")
    ran += [BLANK, RIGHT, 'submit("ex_01")']
    check_saved("ex_01")


def test_an_answer_that_ran_last_and_is_not_saved_stops_the_submission(ran: list[str]) -> None:
    ran += [RIGHT, RIGHT.replace("pass", "print('changed')"), 'submit("ex_01")']
    with pytest.raises(UnsavedAnswersError, match=f"{TASK.title}.*If you have changed it since, run it.*Ctrl\\+S"):
        check_saved("ex_01", patience=0.0)


def test_a_save_that_comes_a_moment_later_is_waited_for(
    classroom: Classroom, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = RIGHT.replace("pass", "print('changed')")
    ran += [RIGHT, newer, 'submit("ex_01")']

    def saves(seconds: float) -> None:
        nbformat.write(classroom.answered(newer), classroom.workspace_file)

    monkeypatch.setattr(submission, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=saves))
    check_saved("ex_01")


@pytest.mark.parametrize("broken", [False, True])
def test_the_cell_says_what_cannot_be_submitted(
    classroom: Classroom, ran: list[str], broken: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    from autograder.learner_side.submit_cell import submit as submit_from_cell

    if broken:
        classroom.workspace_file.write_bytes(b"")
    submit_from_cell("ex_01" if broken else "ex_99")
    told = capsys.readouterr().out
    assert told.startswith("Not submitted: ")
    assert told.count("\n") == 1
    assert ("not JSON" if broken else "no exercise starts with 'ex_99'") in told


def test_other_cells_may_run_unsaved(ran: list[str]) -> None:
    ran += [RIGHT, "GraphRecorder()", "x = 1"]
    check_saved("ex_01")


def test_outside_a_notebook_there_is_nothing_to_save(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: None)
    check_saved("ex_01")


def test_nothing_is_submitted_while_grading(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from autograder.learner_side.submit_cell import submit as submit_from_cell

    monkeypatch.setenv("FXOPT_GRADING", "1")
    submit_from_cell("ex_01")
    assert "do nothing while grading" in capsys.readouterr().out


def test_the_time_is_written_last(classroom: Classroom, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    original = submission.write_whole

    def noted(target: Path, content: bytes, scratch: Path) -> None:
        written.append(target.name)
        original(target, content, scratch)

    monkeypatch.setattr(submission, "write_whole", noted)
    classroom.hand_in(RIGHT)
    assert written == [f"{TASK.notebook}.ipynb", "timestamp.txt"]
    assert os.listdir(classroom.course.records / "history" / "me")

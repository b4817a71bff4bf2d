"""Notebooks that are damaged in hundreds of ways: each is read, or refused in one line, and none brings grading down.

`FXOPT_TORTURE=3000` tries so many, other ones each time.
"""

from __future__ import annotations

import json
import os
from random import SystemRandom

import nbformat
import pytest
from classroom import DAY, TASK, Classroom
from damaging import damaged

from autograder.course.notebooks import cells_before_check, compare_with_release, restored
from autograder.course.reading import UnreadableNotebookError, parse_notebook
from autograder.course.tasks import tasks_of_notebook
from autograder.records.intake import kernel_problems, received

FILE = f"{TASK.notebook}.ipynb"

WANTED = os.environ.get("FXOPT_TORTURE")


def test_a_damaged_notebook_is_read_or_refused_in_one_line(room: Classroom) -> None:
    content = (room.course.curriculum / DAY / FILE).read_bytes()
    release = room.released
    first = SystemRandom().randrange(2**32) if WANTED else 0
    count = {"read": 0, "refused": 0, "whole": 0}
    for seed in range(first, first + int(WANTED or 300)):
        try:
            notebook = parse_notebook(FILE, damaged(content, seed))
        except UnreadableNotebookError as error:
            line = str(error)
            assert "\n" not in line, seed
            assert 20 < len(line) < 400, seed
            count["refused"] += 1
            continue
        problems = compare_with_release(notebook, release).problems()
        assert all("\n" not in problem for problem in problems), seed
        rebuilt = restored(notebook, release)
        for task in tasks_of_notebook(TASK.notebook):
            cells = cells_before_check(rebuilt, task)
            assert [cell["id"] for cell in cells].count(task.answer_id) == 1, seed
            assert all(isinstance(cell["source"], str) for cell in cells), seed
        # What was read can be written, by nbformat's own rules, and is then the same.
        nbformat.validate(rebuilt)
        again = parse_notebook(FILE, nbformat.writes(rebuilt).encode())
        assert [cell.source for cell in again.cells] == [cell.source for cell in rebuilt.cells], seed
        count["read"] += 1
        count["whole"] += not problems
    # Else only one half would be tried.
    assert min(count["read"], count["refused"]) > 20, count
    assert count["read"] > count["whole"], count


@pytest.mark.parametrize("kept", [("language",), ("name",), ("display_name",), ("odd",)])
def test_a_kernel_of_which_something_is_missing_can_be_written(room: Classroom, kept: tuple[str, ...]) -> None:
    document = json.loads((room.course.curriculum / DAY / FILE).read_bytes())
    document["metadata"]["kernelspec"] = dict.fromkeys(kept, "python")
    read = parse_notebook(FILE, json.dumps(document).encode())
    nbformat.validate(read)
    assert kernel_problems(read) == []
    document["metadata"]["kernelspec"] |= {"language": "julia"}
    assert "kernel is 'julia'" in kernel_problems(parse_notebook(FILE, json.dumps(document).encode()))[0]


def test_what_is_damaged_in_a_folder_is_taken_in(classroom: Classroom) -> None:
    content = (classroom.course.curriculum / DAY / FILE).read_bytes()
    seen = set()
    for seed in range(1000, 1060):
        classroom.place(damaged(content, seed), "somebody")
        notebook = received(classroom.course, "somebody", DAY, TASK.notebook)
        noted = notebook.metadata["fxopt_problems"]
        assert all("\n" not in problem for problem in noted["problems"]), seed
        assert noted["problems"] or not noted["unreadable"]
        seen.add(noted["unreadable"])
    assert seen == {True, False}

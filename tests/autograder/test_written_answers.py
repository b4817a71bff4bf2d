"""Written answers: the rubric is shown, a person grades, the points stand outside those of the judge."""

# ruff: noqa: E501 (the metadata of a cell stands in one line)
from __future__ import annotations

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from classroom import DAY, TASK, Classroom, cell
from nbgrader.api import Gradebook

from autograder.authoring.release import release
from autograder.classroom.feedback import write_feedback
from autograder.course import checklist
from autograder.course.reading import read_notebook
from autograder.course.sources import ReleaseError, read_source
from autograder.course.task import WrittenTask
from autograder.course.tracks import WEEK_1
from autograder.records import gradebook

WRITTEN = WrittenTask("deep_dive", TASK.unit, TASK.notebook, "A deep dive", checklist=("technical-deep-dive",))

CELLS = """
# %% [markdown] nbgrader={"grade": false, "grade_id": "deep_dive-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## A deep dive
#
# Explain one mechanism.

# %% [markdown] nbgrader={"grade": true, "grade_id": "deep_dive", "locked": false, "points": 20, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"names the mechanism": 5, "measures it": 15}}
# The answer of the solution.
"""


@pytest.fixture
def room_with_question(classroom: Classroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Classroom:
    for module in (gradebook, checklist):
        monkeypatch.setattr(module, "written_tasks", lambda: (WRITTEN,))
    source = classroom.course.solutions / DAY / f"{TASK.notebook}.py"
    for other in classroom.course.solutions.rglob("*.py"):
        if other != source:
            other.unlink()  # only this one need be released
    source.write_text(source.read_text() + CELLS)
    for name, path in release(classroom.course, tmp_path / "built"):
        shutil.copy(path, classroom.course.curriculum / name)
        shutil.copy(path, classroom.course.workspace / name)
    return classroom


def contents_of(page: Path | None) -> str:
    """What stands at the top of a feedback page: its points."""
    assert page is not None
    top = BeautifulSoup(page.read_text(), "html.parser").select_one(".panel-heading")
    assert top is not None
    return " ".join(top.get_text().split())


def test_the_student_sees_the_rubric_and_not_the_answer(room_with_question: Classroom) -> None:
    notebook = room_with_question.released
    assert "| measures it | 15 |" in cell(notebook, "deep_dive-task").source
    assert "The answer of the solution" not in cell(notebook, "deep_dive").source


def test_a_rubric_that_does_not_add_up_is_refused(room_with_question: Classroom) -> None:
    source = room_with_question.course.solutions / DAY / f"{TASK.notebook}.py"
    text = source.read_text()
    source.write_text(text.replace('"measures it": 15', '"measures it": 14'))
    with pytest.raises(ReleaseError, match="the rubric of 'deep_dive' must add up to the points of that text cell, 20"):
        read_source(source)
    source.write_text(text.replace("deep_dive-task", "another-task"))
    with pytest.raises(ReleaseError, match="no cell deep_dive-task"):
        read_source(source)


def test_a_person_gives_the_points(room_with_question: Classroom) -> None:
    course = room_with_question.course
    room_with_question.hand_in(room_with_question.reference, "blank")
    notebook = room_with_question.answered(room_with_question.reference)
    cell(notebook, "deep_dive").source = "Guards are checked before each call."
    room_with_question.place(nbformat.writes(notebook).encode(), "written")
    graded = room_with_question.grade()
    for who in ("blank", "written"):
        assert graded[who].outcome is not None
        assert [task["task"] for task in graded[who].outcome["tasks"]].count("deep_dive") == 0
        assert sum(task["max_points"] for task in graded[who].outcome["tasks"]) == 100
    assert gradebook.written_scores(course, graded["written"]) == [(WRITTEN, None, 20.0, "waits for a person")]
    assert gradebook.written_scores(course, graded["blank"]) == [(WRITTEN, 0.0, 20.0, "not written")]
    written, blank = (contents_of(graded[who].feedback) for who in ("written", "blank"))
    assert "(Score: 15.0 / 100.0)" in written
    assert "A technical deep dive (waits for a person: up to 20 points)" in written
    assert "(Score: 15.0 / 120.0)" in blank
    assert "A technical deep dive (not written: 0 of 20 points)" in blank
    # Beside the answer, too.
    for who, said in (("written", "waits for a person: up to 20 points"), ("blank", "not written: 0 of 20 points")):
        page = graded[who].feedback
        assert page is not None
        beside = BeautifulSoup(page.read_text(), "html.parser").select(".panel-heading > .pull-right")
        assert [" ".join(each.get_text().split()) for each in beside].count(f"{said} (Top)") == 1
        assert "Score: 0.0 /" not in page.read_text()
    with Gradebook(course.database, "fxopt") as book:
        grade = book.find_grade("deep_dive", TASK.notebook, DAY, "written")
        grade.manual_score, grade.needs_manual_grade = 12.0, False
        book.db.commit()
    assert gradebook.written_scores(course, graded["written"]) == [(WRITTEN, 12.0, 20.0, "given by a person")]
    [written_page] = write_feedback(course, "written", DAY)
    assert "(Score: 27.0 / 120.0)" in contents_of(written_page)
    assert "A technical deep dive (12 of 20 points, given by a person)" in contents_of(written_page)
    # The same words, graded again: they keep their points. Other words wait, and what the person gave is not forgotten.
    graded = room_with_question.grade(force=True)
    assert gradebook.written_scores(course, graded["written"]) == [(WRITTEN, 12.0, 20.0, "given by a person")]
    cell(notebook, "deep_dive").source = "Guards are checked before each call, in C."
    room_with_question.place(nbformat.writes(notebook).encode(), "written")
    graded = room_with_question.grade()
    assert gradebook.written_scores(course, graded["written"]) == [(WRITTEN, None, 20.0, "waits for a person")]
    with Gradebook(course.database, "fxopt") as book:
        assert book.find_grade("deep_dive", TASK.notebook, DAY, "written").manual_score == 12.0
    submitted = read_notebook(course.submitted / "written" / DAY / f"{TASK.notebook}.ipynb")
    assert re.search("Guards", cell(submitted, "deep_dive").source)


def test_a_written_answer_counts_towards_the_checklist(room_with_question: Classroom) -> None:
    items = checklist.read_checklist(room_with_question.course.root, WEEK_1)
    [item] = [item for item in items if item.key == "technical-deep-dive"]
    assert WRITTEN in item.tasks
    only = checklist.ChecklistItem(item.key, item.text, (WRITTEN,))
    assert checklist.state_of(only, {})[0] == "[ ]"
    assert checklist.state_of(only, {("grade", "deep_dive"): "passed"})[0] == "[x]"

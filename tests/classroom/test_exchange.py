"""A class through nbgrader's exchange: release, fetch, submit, collect, grade, feedback; and what learners may try."""

from __future__ import annotations

import os
import time
from pathlib import Path

import nbformat
import pytest
from classroom import BLANK, DAY, RIGHT, TASK, Classroom, outcome_of, stand_in

from autograder.classroom.exchange import CourseExchangeError, run_step
from autograder.course.course import EXCHANGE_VARIABLE, Course
from autograder.grading import work
from autograder.records.gradebook import prepare_gradebook

NAME = f"{TASK.notebook}.ipynb"


@pytest.fixture
def exchange(classroom: Classroom, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shared folder with the assignment released."""
    monkeypatch.setenv(EXCHANGE_VARIABLE, str(tmp_path / "exchange"))
    monkeypatch.setattr(work, "grade_notebook", stand_in)
    prepare_gradebook(classroom.course)
    run_step(classroom.course, "release", DAY)
    return classroom.course.exchange


def learner(folder: Path) -> Course:
    """Another machine: a course without anything in its workspace."""
    course = Course(folder)
    course.workspace.mkdir(parents=True)
    return course


def submits(classroom: Classroom, course: Course, who: str, answer: str) -> None:
    run_step(course, "fetch", DAY)
    nbformat.write(classroom.answered(answer), course.workspace / DAY / NAME)
    nbformat.write(nbformat.v4.new_notebook(), course.workspace / DAY / "lesson_compile_stack.ipynb")
    run_step(course, "submit", DAY, student=who)


def test_a_class_goes_through_the_exchange(classroom: Classroom, exchange: Path, tmp_path: Path) -> None:
    ada, bob = learner(tmp_path / "ada"), learner(tmp_path / "bob")
    submits(classroom, ada, "ada", BLANK)
    submits(classroom, bob, "bob", RIGHT)
    run_step(classroom.course, "collect", DAY, any_owner=True)
    graded = classroom.grade()
    assert {who: outcome_of(found)["status"] for who, found in graded.items()} == {"ada": "wrong", "bob": "passed"}
    # What nbgrader itself lays beside a submission is no learner's mistake.
    assert all(found.outcome is not None and found.outcome["problems"] == [] for found in graded.values())
    # A later submission is collected and graded, an unchanged one is not.
    submits(classroom, ada, "ada", RIGHT)
    run_step(classroom.course, "collect", DAY, any_owner=True)
    graded = classroom.grade()
    assert (graded["ada"].anew, graded["bob"].anew) == (True, False)
    assert outcome_of(graded["ada"])["status"] == "passed"
    # Feedback goes back to those whose it is, and to nobody else; who handed in otherwise is named.
    classroom.hand_in(RIGHT, "carol")
    classroom.grade()
    [said] = run_step(classroom.course, "feedback", DAY)
    assert said.startswith("1 did not hand in through the exchange")
    assert said.endswith(": carol")
    # A lesson that was handed in with the rest has no page, and nobody is told that one is missing.
    [said] = run_step(ada, "fetch-feedback", DAY, student="ada")
    assert f"/{TASK.notebook}' submitted" in said  # the first of two, whose place the second one took
    pages = list(ada.workspace.glob(f"{DAY}/feedback/*/{TASK.notebook}.html"))
    assert [page.read_text() for page in pages] == [classroom.feedback("ada")]
    with pytest.raises(CourseExchangeError, match="already exists, add --force"):
        run_step(classroom.course, "release", DAY)


def inbound(exchange: Path, who: str, stamp: str = "2026-03-02 12:00:00.000000 UTC") -> Path:
    folder = exchange / "fxopt" / "inbound" / f"{who}+{DAY}+{stamp}+abc"
    folder.mkdir(parents=True)
    (folder / "timestamp.txt").write_text(stamp)
    return folder


def test_nothing_of_the_instructors_is_collected_through_a_link(classroom: Classroom, exchange: Path) -> None:
    solution = classroom.course.root / "solution.ipynb"
    nbformat.write(classroom.answered(RIGHT), solution)
    linked = inbound(exchange, "linked")
    (linked / NAME).symlink_to(solution)
    twice = inbound(exchange, "twice")
    os.link(solution, twice / NAME)
    other = inbound(exchange, "other")
    nbformat.write(classroom.answered(BLANK), other / NAME)
    (other / "seed.txt").symlink_to(classroom.course.records / "seed")
    (other / "deep").symlink_to(classroom.course.root)
    os.mkfifo(inbound(exchange, "pipe") / NAME)
    whole = inbound(exchange, "folder")
    whole.joinpath("timestamp.txt").unlink()
    whole.rmdir()
    whole.symlink_to(linked)
    said = run_step(classroom.course, "collect", DAY, any_owner=True)
    assert (classroom.course.submitted / "linked" / DAY / NAME).is_symlink()
    assert sorted(path.name for path in (classroom.course.submitted / "other" / DAY).iterdir()) == [
        NAME,
        "timestamp.txt",
    ]
    assert not (classroom.course.submitted / "folder").exists()
    for who in ("twice", "pipe"):
        assert not (classroom.course.submitted / who / DAY / NAME).exists()
        assert any(line.startswith(who) and "was left where it is" in line for line in said)
    graded = classroom.grade()
    [problem] = graded["linked"].outcome["problems"] if graded["linked"].outcome else []
    assert "this is a link to another file; hand in the notebook itself" in problem
    assert outcome_of(graded["linked"])["points"] == 0


def test_nobody_hands_in_for_another(classroom: Classroom, exchange: Path) -> None:
    nbformat.write(classroom.answered(BLANK), inbound(exchange, "victim") / NAME)
    nbformat.write(classroom.answered(BLANK), inbound(exchange, "x;y") / NAME)
    said = run_step(classroom.course, "collect", DAY)
    assert any("claims to be from victim but belongs to" in line for line in said)
    assert any("cannot be a student's name" in line for line in said)
    assert not (classroom.course.submitted / "victim").exists()
    assert not (classroom.course.submitted / "x;y").exists()


def test_a_time_that_was_set_back_is_remarked_on(classroom: Classroom, exchange: Path) -> None:
    nbformat.write(classroom.answered(BLANK), inbound(exchange, "early", "2020-01-01 12:00:00.000000 UTC") / NAME)
    said = run_step(classroom.course, "collect", DAY, any_owner=True)
    assert any(line.startswith("early says 2020-01-01") for line in said)
    now = time.strftime("%Y-%m-%d %H:%M:%S.000000 UTC", time.gmtime())
    nbformat.write(classroom.answered(BLANK), inbound(exchange, "punctual", now) / NAME)
    assert not any("punctual" in line for line in run_step(classroom.course, "collect", DAY, any_owner=True))

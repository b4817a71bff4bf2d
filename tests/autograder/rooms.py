"""Fixtures of several folders of tests: a throw-away course for each test or module, and warm graders."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from classroom import SMALL, TASK, Classroom, make_course, need_bubblewrap, nothing_recorded

from autograder.course.course import Course
from autograder.grading.grading import Grader
from autograder.records.gradebook import prepare_gradebook


@pytest.fixture(scope="session")
def fresh_course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A course as it is handed out, whose gradebook knows the assignments and nobody; tests copy it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("FXOPT_DATABASE", raising=False)
        course = make_course(tmp_path_factory.mktemp("fresh") / "course")
        prepare_gradebook(course)
    assert nothing_recorded(course)
    return course


@pytest.fixture
def classroom(fresh_course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Classroom:
    """A course of a test's own, which every command finds."""
    course = Course(shutil.copytree(fresh_course.root, tmp_path / "course"))
    monkeypatch.setenv("FXOPT_ROOT", str(course.root))
    for name in ("FXOPT_SEED", "FXOPT_STUDENT", "FXOPT_DATABASE", "FXOPT_GRADING"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(course.workspace)
    return Classroom(course)


@pytest.fixture
def course(classroom: Classroom) -> Course:
    return classroom.course


@pytest.fixture(scope="session")
def room(fresh_course: Course) -> Classroom:
    """A classroom that tests share and only read."""
    return Classroom(fresh_course)


@pytest.fixture(scope="session")
def sandboxed() -> Iterator[Grader]:
    """A warm grader whose learner's side runs in bubblewrap."""
    need_bubblewrap()
    with Grader([TASK], "a seed for tests", sandboxed=True, limits=SMALL) as grader:
        yield grader


@pytest.fixture(scope="session")
def plain() -> Iterator[Grader]:
    """A warm grader whose learner's side is a plain process with limits."""
    with Grader([TASK], "a seed for tests", sandboxed=False, limits=SMALL) as grader:
        yield grader

"""Fixtures of several folders of tests: a throw-away course for each test or module, and warm graders."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from classroom import SMALL, TASK, Classroom, make_course, need_bubblewrap, nothing_recorded
from filelock import FileLock

from autograder.course.course import Course
from autograder.grading.grading import Grader
from autograder.records.gradebook import prepare_gradebook


@pytest.fixture(scope="session")
def fresh_course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A course as it is handed out, whose gradebook knows the assignments and nobody; tests copy it.

    The processes of `pytest -n` share one: the first that needs it makes it, which takes seconds, the others wait.
    """
    own = tmp_path_factory.getbasetemp()
    course = Course((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "fresh-course")
    with FileLock(course.root.with_suffix(".lock")), pytest.MonkeyPatch.context() as patch:
        patch.delenv("FXOPT_DATABASE", raising=False)
        done = course.root.with_suffix(".done")
        if not done.exists():
            shutil.rmtree(course.root, ignore_errors=True)  # a process that was stopped left a part of it
            make_course(course.root)
            prepare_gradebook(course)
            done.touch()
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

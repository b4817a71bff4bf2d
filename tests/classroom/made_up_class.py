"""A class whose verdicts are made up from what its answers are known to be, so that nothing has to run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from autograder.authoring.gate import documented
from autograder.classroom.generate import Generated, generate
from autograder.course.course import Course
from autograder.course.judges import judge_module
from autograder.course.notebooks import points_of
from autograder.course.reading import read_notebook
from autograder.course.task import Task
from autograder.course.tasks import find_task
from autograder.grading.endings import FAILED_HIDDEN, HIDDEN_FAILED
from autograder.records.verdicts import TaskVerdict, Verdict, VerdictStore

DAY, NOTEBOOK = "day1_compile_stack", "ex_01_torch_compile_basics"


def make_class(course: Course, students: int = 40, graded: int | None = None) -> list[Generated]:
    """Hand in for so many students, and record verdicts for the first ones of them (all without a number)."""
    made = list(generate(course, students, DAY, seed=3))
    record(course, made[: len(made) if graded is None else graded])
    return made


def record(course: Course, made: Sequence[Generated], pause: float = 4.0) -> None:
    """Record verdicts as a grading run would have, the last one just now."""
    now = datetime.now(UTC)
    points = points_of(read_notebook(course.curriculum / DAY / f"{NOTEBOOK}.ipynb"))
    with VerdictStore(course.database) as store:
        for number, each in enumerate(made):
            content = (course.submitted / each.student / DAY / f"{NOTEBOOK}.ipynb").read_bytes()
            tasks = tuple(_verdict(find_task(name), kind, points[name]) for name, kind in each.answers.items())
            graded_at = now - timedelta(seconds=pause * (len(made) - 1 - number))
            store.record(
                Verdict(
                    each.student,
                    DAY,
                    NOTEBOOK,
                    hashlib.sha256(content).hexdigest(),
                    "made up",
                    "graded",
                    now - timedelta(hours=3),
                    graded_at,
                    tasks,
                )
            )


def _verdict(task: Task, kind: str, most: float) -> TaskVerdict:
    if kind in ("reference", "blank") or kind.startswith("right/"):
        right = kind != "blank"
        return TaskVerdict(task.name, task.title, "passed" if right else "not written", most * right, most)
    name = documented(task.folder / f"{kind}.py")[0]
    if name in ("raised", "not defined") or "limit" in name:
        return TaskVerdict(task.name, task.title, "error", 0.0, most, ("Your cell raises.",), (name,))
    message = HIDDEN_FAILED if name == FAILED_HIDDEN else judge_module(task).MISCONCEPTIONS[name]
    return TaskVerdict(task.name, task.title, "wrong", 0.0, most, (message,), (name,))

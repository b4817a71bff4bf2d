"""A throw-away course for each test, and helpers to put answers into its notebooks. Never the real workspace."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import NotebookNode

from autograder.authoring.release import release
from autograder.course.course import Course
from autograder.course.notebooks import cells_before_check, grade_id
from autograder.course.reading import read_notebook
from autograder.course.sources import read_source
from autograder.course.submission import submit
from autograder.course.task import UNITS, Task
from autograder.course.tasks import find_task
from autograder.course.workspace import PAGES
from autograder.exchange.verdict import TaskOutcome
from autograder.grading.batch import Here
from autograder.grading.grading import Grader, NotebookOutcome
from autograder.grading.sandbox import Limits, bubblewrap
from autograder.records.gradebook import Graded, grade

ROOT = Path(__file__).parents[2]

TASK = find_task("record_graphs")
"""The task on which the rails are tried: the first of the course."""

DAY = UNITS[TASK.unit]


class Lasting(Here):
    """Grades in this process, as `fxopt grade` does, and lets what is warm live on: to start it takes seconds."""

    def __exit__(self, *_: Any) -> None:
        """Nothing ends; the end of this process ends it all."""


@dataclass
class Classroom:
    """A course in a temporary folder, and what an instructor or a learner does with it."""

    course: Course

    @property
    def released(self) -> NotebookNode:
        """A fresh copy of the notebook that was handed out."""
        return read_notebook(self.course.curriculum / DAY / f"{TASK.notebook}.ipynb")

    @property
    def workspace_file(self) -> Path:
        """The learner's notebook."""
        return self.course.workspace / DAY / f"{TASK.notebook}.ipynb"

    @property
    def reference(self) -> str:
        """The reference answer to `TASK`."""
        source = read_source(self.course.solutions / DAY / f"{TASK.notebook}.py")
        return cell(source, TASK.answer_id).source

    def answered(self, source: str, task: Task = TASK) -> NotebookNode:
        """The released notebook with an answer in its place."""
        notebook = self.released
        cell(notebook, task.answer_id).source = source
        return notebook

    def cells(self, source: str) -> list[dict[str, str]]:
        """The cells that are run for `TASK` when this is the answer."""
        return cells_before_check(self.answered(source), TASK)

    def hand_in(self, source: str, who: str | None = None) -> Path:
        """Answer `TASK` in the workspace and submit; the copy that will be graded."""
        nbformat.write(self.answered(source), self.workspace_file)
        return submit(self.course, TASK.notebook, who).path

    def place(self, content: bytes, who: str) -> Path:
        """Lay bytes where a submission is graded, past `fxopt submit`."""
        path = self.course.submitted / who / DAY / f"{TASK.notebook}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def grade(self, **options: Any) -> dict[str, Graded]:
        """Grade everything that was handed in; results by student. Worker and judge stay warm for the next test."""
        if options.get("jobs", 1) == 1:
            options.setdefault("graders", Lasting())
        return {graded.student: graded for graded in grade(self.course, **options)}

    def feedback(self, who: str) -> str:
        """A student's feedback page."""
        return (self.course.feedback / who / DAY / f"{TASK.notebook}.html").read_text()


def cell(notebook: NotebookNode, name: str) -> NotebookNode:
    """The cell with this nbgrader id."""
    return next(cell for cell in notebook.cells if grade_id(cell) == name)


def outcome_of(graded: Graded, task: Task = TASK) -> dict[str, Any]:
    """The recorded outcome of one task."""
    assert graded.outcome is not None, graded.failure
    found: dict[str, Any] = next(item for item in graded.outcome["tasks"] if item["task"] == task.name)
    return found


def need_bubblewrap() -> None:
    """Leave a test out on a machine without sandbox, and say how to get one; in CI that is a failure."""
    if bubblewrap() is not None:
        return
    message = "needs a working bubblewrap: install the system package `bubblewrap` (Linux only)"
    if "CI" in os.environ:
        pytest.fail(message)
    pytest.skip(message)


def make_course(folder: Path) -> Course:
    """A course with sources, notebooks released from just these sources, a filled workspace, and no records."""
    skip = shutil.ignore_patterns("*.ipynb", "__pycache__")
    shutil.copytree(ROOT / "solutions", folder / "solutions", ignore=skip)
    for page in PAGES:
        shutil.copy(ROOT / page, folder)
    course = Course(folder)
    with tempfile.TemporaryDirectory() as made:
        for name, path in release(course, Path(made)):
            for target in (course.curriculum / name, course.workspace / name):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)
    return course


def nothing_recorded(course: Course) -> bool:
    """Whether the records of a course are those of a fresh one: the gradebook of all assignments."""
    return {path.name for path in course.records.iterdir()} == {"gradebook.db"}


SMALL = Limits(memory_bytes=1200 << 20, processes=24, scratch_bytes=64 << 20)
"""Limits under which hostile answers do no harm even where the rails fail."""


CALLED = """
class GraphRecorder:
    def __init__(self):
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
{body}
        self.graphs.append(graph_module)
        return graph_module.forward
"""


def when_called(body: str) -> str:
    """An answer that does something in the function that the probe calls, and is right otherwise."""
    return CALLED.format(body="\n".join(f"        {line}" for line in body.strip().splitlines()))


RIGHT = when_called("pass")

BLANK = "class GraphRecorder:\n    def __init__(self):\n        raise NotImplementedError"


def run(grader: Grader, room: Classroom, source: str, **changes: Any) -> tuple[TaskOutcome, str]:
    """Outcome of an answer, and what its cell printed. Then shows that the next submission is still graded."""
    outcome, outputs = grader.grade(replace(TASK, **({"seconds": 2.0} | changes)), room.cells(source))
    assert outcome.messages or outcome.status == "passed"
    assert all("\n" not in message and len(message) < 600 for message in outcome.messages)
    blank, _ = grader.grade(TASK, room.cells(BLANK))
    assert blank.status == "not written"
    return outcome, "".join(item.get("text", "") for item in outputs.get(TASK.answer_id, []))


def stand_in(
    name: str, notebook: NotebookNode, release: NotebookNode, tasks: tuple[Task, ...], seed: str
) -> NotebookOutcome:
    """In the place of worker and judge: passes a notebook that would run the right answer in the original set-up."""
    sources = [item["source"] for item in cells_before_check(notebook, TASK)]
    right = any(RIGHT in source for source in sources) and cell(release, "ex01-setup").source in sources
    found = TaskOutcome(TASK.name, TASK.title, "passed" if right else "wrong", max_points=15.0)
    found.points = found.max_points * right
    return NotebookOutcome(name, [found])


def shown_below(folder: str) -> list[str]:
    """What a sandbox shows in a scratch folder before anybody writes there: the way to Python, if it lies there."""
    python = Path(sys.prefix)
    return [python.relative_to(folder).parts[0]] if python.is_relative_to(folder) else []

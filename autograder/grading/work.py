"""One submitted notebook as a unit of work: bytes in, plain data out, and nothing else read or written.

So it can be done in any process, on any machine and more than once: the same work comes to the same points. Imports no
torch.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.course.notebooks import cells_before_check
from autograder.course.task import Task
from autograder.course.tasks import find_task
from autograder.exchange.verdict import TaskOutcome
from autograder.grading.grading import NotebookOutcome, grade_notebook, keep_warm


@dataclass(frozen=True)
class Work:
    """A notebook to grade.

    Attributes:
        name: the notebook's name.
        notebook: the learner's notebook, as the bytes of a file.
        release: the notebook as handed out, likewise; points come from it.
        tasks: names of the tasks to grade.
        seed: the secret behind the hidden cases; `None` for visible cases only.
    """

    name: str
    notebook: bytes
    release: bytes
    tasks: tuple[str, ...]
    seed: str | None


def work_for(
    name: str, notebook: NotebookNode, release: NotebookNode, tasks: tuple[Task, ...], seed: str | None
) -> Work:
    """The work of grading a notebook that was read."""
    theirs, ours = (nbformat.writes(item).encode() for item in (notebook, release))
    return Work(name, theirs, ours, tuple(task.name for task in tasks), seed)


def key_of(notebook: NotebookNode, release: NotebookNode, tasks: tuple[Task, ...], seed: str | None) -> str:
    """What tells two works apart: the cells that will be run for each task, what was handed out, and the seed."""
    cells = {task.name: cells_before_check(notebook, task) for task in tasks}
    handed_out = [[cell.cell_type, cell.source, cell.metadata] for cell in release.cells]
    return hashlib.sha256(json.dumps([cells, handed_out, seed], sort_keys=True).encode()).hexdigest()


def do(work: Work) -> dict[str, Any]:
    """Grade one notebook; the outcome as JSON values. Grader and judge stay warm for the next one in this process.

    Raises:
        SandboxError, JudgeError: the graders themselves do not run here.
    """
    keep_warm()
    notebook, release = (nbformat.reads(text.decode(), as_version=4) for text in (work.notebook, work.release))
    tasks = [find_task(name) for name in work.tasks]
    return asdict(grade_notebook(work.name, notebook, release, tasks, work.seed))


def outcome_of(values: dict[str, Any]) -> NotebookOutcome:
    """The outcome that `do` gave, without the single cases, which only a judge needs."""
    tasks = [TaskOutcome(**(task | {"cases": []})) for task in values["tasks"]]
    return NotebookOutcome(**(values | {"tasks": tasks}))

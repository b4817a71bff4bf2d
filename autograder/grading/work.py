"""One submitted notebook as a unit of work: bytes in, plain data out, and nothing else read or written.

So it can be done in any process, on any machine and more than once: the same work comes to the same points. Imports no
torch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import nbformat
from nbformat import NotebookNode

from autograder.course.task import Task
from autograder.course.tasks import find_task
from autograder.exchange.verdict import TaskOutcome, one_line
from autograder.grading.grading import NotebookOutcome, grade_notebook, keep_warm, let_go
from autograder.grading.version import code_version

TRIES = 3
"""How often a notebook is tried when grading itself fails, before that is recorded."""

_ONE = threading.Lock()
"""A process grades one notebook at a time, whatever threads a cluster's worker has: its warm graders are one set."""

PAUSE_SECONDS = 0.5
"""Pause before the second try; before each further one it is twice as long."""


class InfrastructureError(RuntimeError):
    """Grading itself failed each time that it was tried, through no fault of the learner; the message says how."""


@dataclass(frozen=True)
class Work:
    """A notebook to grade.

    Attributes:
        name: the notebook's name.
        notebook: the learner's notebook, as the bytes of a file.
        release: the notebook as handed out, likewise; points come from it.
        tasks: names of the tasks to grade.
        seed: the secret behind the hidden cases; `None` for visible cases only.
        version: the version of the code that this was made by, which must be the one that does it.
    """

    name: str
    notebook: bytes
    release: bytes
    tasks: tuple[str, ...]
    seed: str | None
    version: str


def work_for(
    name: str, notebook: NotebookNode, release: NotebookNode, tasks: tuple[Task, ...], seed: str | None
) -> Work:
    """The work of grading a notebook that was read."""
    theirs, ours = (nbformat.writes(item).encode() for item in (notebook, release))
    return Work(name, theirs, ours, tuple(task.name for task in tasks), seed, code_version())


def surely(grade: Callable[[], NotebookOutcome], sleep: Callable[[float], None] = time.sleep) -> NotebookOutcome:
    """What `grade` comes to, tried again a bounded number of times with fresh graders when grading itself fails.

    Raises:
        InfrastructureError: it failed each time.
    """
    for tried in range(1, TRIES + 1):
        try:
            return grade()
        except Exception as error:  # whatever it is, a learner's code cannot raise here: it is ours, or the machine's
            let_go()
            if tried == TRIES:
                raise InfrastructureError(reason_of(error)) from error
        sleep(PAUSE_SECONDS * 2 ** (tried - 1))
    raise AssertionError("unreachable")


def reason_of(error: BaseException) -> str:
    """One line about why grading failed."""
    return one_line(f"{type(error).__name__}: {error}", 500)


def do(work: Work) -> dict[str, Any]:
    """Grade one notebook; the outcome as JSON values. Grader and judge stay warm for the next one in this process.

    When grading itself fails each time, the values are `{"infrastructure_error": reason}`.
    """
    if work.version != code_version():
        found = f"this process has version {code_version()} of the course's code, the work is for {work.version}"
        return {"infrastructure_error": f"{found}: install the same version of fxopt wherever you grade"}
    notebook, release = (nbformat.reads(text.decode(), as_version=4) for text in (work.notebook, work.release))
    tasks = [find_task(name) for name in work.tasks]

    def grade() -> NotebookOutcome:
        keep_warm()
        return grade_notebook(work.name, notebook, release, tasks, work.seed)

    try:
        with _ONE:
            return asdict(surely(grade))
    except InfrastructureError as error:
        return {"infrastructure_error": str(error)}


def outcome_of(values: dict[str, Any]) -> NotebookOutcome:
    """The outcome that `do` gave, without the single cases, which only a judge needs.

    Raises:
        InfrastructureError: grading itself failed.
    """
    if "infrastructure_error" in values:
        raise InfrastructureError(values["infrastructure_error"])
    tasks = [TaskOutcome(**(task | {"cases": []})) for task in values["tasks"]]
    return NotebookOutcome(**(values | {"tasks": tasks}))

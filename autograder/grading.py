"""From a notebook to the outcome of each of its tasks: the one path that every grade and every check takes.

`fxopt check`, JupyterLab's Validate button, `fxopt grade`, nbgrader's form grader and the exercise gate all
call `grade_cells` or `grade_notebook`. The learner's cells run in a worker (`sandbox.py`), the verdicts come
from the judge (`judging.py`); this module runs neither and imports no torch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbformat import NotebookNode

from autograder.channel import (
    Channel,
    ChannelClosedError,
    ChannelTimeoutError,
    MalformedMessageError,
    Message,
)
from autograder.judging import Judge
from autograder.notebooks import cells_before_check, points_of
from autograder.sandbox import Limits, Worker
from autograder.tasks import Task
from autograder.verdict import (
    NOT_WRITTEN,
    CaseVerdict,
    Finding,
    Status,
    TaskOutcome,
    outcome_from_verdicts,
)

MESSAGES: dict[Status, str] = {
    "time limit": "Stopped after {seconds:g} seconds: your code did not finish. Look for a loop that never ends.",
    "memory limit": "Stopped: your code used more than {memory:.0f} GiB of memory.",
    "process limit": "Stopped: your code started more than {processes} processes.",
    "crashed": "The Python process ended while your code ran (a call of exit, or a crash).",
}


@dataclass
class NotebookOutcome:
    """What all tasks of one notebook came to.

    Attributes:
        notebook: the notebook's name.
        tasks: outcome of each task, in order.
        problems: one line each about the notebook as a whole.
        sandboxed: whether the cells ran in bubblewrap.
        outputs: outputs of the learner's cells (notebook format), by cell id.
        seconds: wall time in seconds.
    """

    notebook: str
    tasks: list[TaskOutcome] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    sandboxed: bool = False
    outputs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether every task is passed and nothing is wrong with the notebook."""
        return not self.problems and all(task.status == "passed" for task in self.tasks)

    def to_json(self) -> dict[str, Any]:
        """The form that `fxopt check --json` prints."""
        return {
            "notebook": self.notebook,
            "problems": self.problems,
            "tasks": [task.to_json() for task in self.tasks],
            "sandboxed": self.sandboxed,
            "seconds": round(self.seconds, 2),
        }


class Grader:
    """Grades tasks with one worker and one judge, both started once and kept warm. A context manager."""

    def __init__(
        self,
        tasks: Sequence[Task],
        seed: str | None,
        *,
        sandboxed: bool | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Prepare to grade `tasks`.

        Args:
            tasks: the tasks of one notebook.
            seed: the secret from which hidden cases come; `None` judges the visible cases only.
            sandboxed: `None` uses bubblewrap when it is there.
            limits: what the learner's side may use.
        """
        self._tasks = list(tasks)
        self._seed = seed
        self._sandboxed = sandboxed
        self._limits = limits or Limits()
        self._worker: Worker | None = None
        self._judge = Judge(seed or "")
        self._cases: dict[tuple[str, bool], list[Message]] = {}

    def __enter__(self) -> Grader:
        self._judge.__enter__()
        self._judge.start()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._worker is not None:
            self._worker.close()
        self._judge.__exit__(*error)

    def _live_worker(self) -> Worker:
        if self._worker is not None and not self._worker.alive:
            self._worker.close()
            self._worker = None
        if self._worker is None:
            self._worker = Worker(self._tasks, self._limits, self._sandboxed).__enter__()
        return self._worker

    @property
    def sandboxed(self) -> bool:
        """Whether the learner's side runs in bubblewrap."""
        return self._live_worker().sandboxed

    def _cases_of(self, task: Task, hidden: bool) -> list[Message]:
        key = (task.name, hidden)
        if key not in self._cases:
            self._cases[key] = self._judge.cases(task, hidden)
        return self._cases[key]

    def grade(
        self, task: Task, cells: list[dict[str, str]], stuck: set[str] | None = None
    ) -> tuple[TaskOutcome, dict[str, list[dict[str, Any]]]]:
        """The outcome of one task, and the outputs of the cells that were run for it.

        Args:
            task: the task.
            cells: the code cells before the task's check, each with `id` and `source`.
            stuck: ids of cells that did not finish before; they are left out, and new ones are added. The
                task's own answer is never left out.
        """
        stuck = set() if stuck is None else stuck
        started = time.monotonic()
        while True:
            wanted = [cell for cell in cells if cell["id"] not in stuck or cell["id"] == task.answer_id]
            run = _Run(self._live_worker(), task, wanted, self._limits)
            outcome = run.outcome(self._all_cases(task), self._judge.judge)
            culprit = run.running_cell
            if outcome is not None or culprit in (None, task.answer_id):
                break
            # Another cell of the notebook brought the process down: this task is graded without it.
            stuck.add(culprit)
        if outcome is None:
            outcome = run.failure()
        outcome.seconds = time.monotonic() - started
        return outcome, run.outputs

    def _all_cases(self, task: Task) -> Callable[[], list[tuple[bool, Message]]]:
        def cases() -> list[tuple[bool, Message]]:
            listed = [(False, case) for case in self._cases_of(task, hidden=False)]
            if self._seed is not None:
                listed += [(True, case) for case in self._cases_of(task, hidden=True)]
            return listed

        return cases


class _Run:
    """One task on one forked child."""

    def __init__(self, worker: Worker, task: Task, cells: list[dict[str, str]], limits: Limits) -> None:
        self._worker, self._task, self._limits = worker, task, limits
        self._cells = cells
        self._end = time.monotonic() + task.seconds
        self._timed_out = False
        self.running_cell: str | None = None
        self.outputs: dict[str, list[dict[str, Any]]] = {}

    def outcome(
        self,
        cases: Callable[[], list[tuple[bool, Message]]],
        judge: Callable[[Task, Message, Message, bool], CaseVerdict],
    ) -> TaskOutcome | None:
        """The outcome, or `None` when the child did not live to the end of the learner's cells or cases."""
        channel: Channel | None = None
        try:
            channel = self._worker.run(self._cells, self._task)
            missing = self._run_cells(channel)
            if missing:
                return self._not_defined(missing)
            return self._run_cases(channel, cases(), judge)
        except ChannelTimeoutError:
            self._timed_out = True
            return None
        except ChannelClosedError:
            return None
        except (MalformedMessageError, KeyError, TypeError):
            # Only code that reached for the worker's own channel gets here.
            message = "Your code disturbed the grading process; nothing that it said could be read."
            return TaskOutcome(self._task.name, self._task.title, "crashed", [message], ["malformed"])
        finally:
            if channel is not None:
                channel.close()
            self._worker.end_run()

    def _receive(self, channel: Channel) -> Message:
        return channel.receive(max(0.01, self._end - time.monotonic()))

    def _run_cells(self, channel: Channel) -> list[str]:
        while True:
            header = self._receive(channel).header
            if "missing" in header:
                self.running_cell = None
                return [str(name) for name in header["missing"]]
            if "cell" in header:
                self.running_cell = str(header["cell"])
            else:
                self.outputs[str(header["done"])] = list(header["outputs"])

    def _not_defined(self, missing: list[str]) -> TaskOutcome:
        own = self.outputs.get(self._task.answer_id)
        error = next((item for item in own or [] if item["output_type"] == "error"), None)
        if error is not None:
            message = f"Your cell raises {str(error['ename'])[:80]}: {str(error['evalue'])[:300]}"
            name = "withheld import" if error["ename"] == "WithheldImportError" else "raised"
            return TaskOutcome(self._task.name, self._task.title, "error", [message], [name])
        names = ", ".join(f"`{name}`" for name in missing)
        message = f"Your notebook does not define {names}. Was the cell removed or the name changed?"
        return TaskOutcome(self._task.name, self._task.title, "not written", [message], ["not defined"])

    def _run_cases(
        self,
        channel: Channel,
        cases: list[tuple[bool, Message]],
        judge: Callable[[Task, Message, Message, bool], CaseVerdict],
    ) -> TaskOutcome | None:
        self.running_cell = self._task.answer_id
        verdicts = []
        for hidden, case in cases:
            channel.send(case.header, case.blob)
            evidence = self._receive(channel)
            if evidence.header.get("raised") == "NotImplementedError":
                return TaskOutcome(self._task.name, self._task.title, "not written", [NOT_WRITTEN], ["not written"])
            verdicts.append(judge(self._task, case, evidence, hidden))
        self.running_cell = None
        return outcome_from_verdicts(self._task.name, self._task.title, verdicts)

    def failure(self) -> TaskOutcome:
        """The outcome of a run whose child did not live to the end."""
        status: Status = "crashed"
        if self._worker.violation in ("memory limit", "process limit"):
            status = "memory limit" if self._worker.violation == "memory limit" else "process limit"
        elif self._timed_out:
            status = "time limit"
        message = MESSAGES[status].format(
            seconds=self._task.seconds,
            memory=self._limits.memory_bytes / 2**30,
            processes=self._limits.processes,
        )
        return TaskOutcome(self._task.name, self._task.title, status, [message], [status])


def grade_notebook(
    name: str,
    notebook: NotebookNode,
    release: NotebookNode,
    tasks: Sequence[Task],
    seed: str | None,
    *,
    sandboxed: bool | None = None,
    limits: Limits | None = None,
    on_task: Callable[[TaskOutcome], None] | None = None,
) -> NotebookOutcome:
    """Grade every task of a notebook.

    Args:
        name: the notebook's name, for reports.
        notebook: the learner's notebook.
        release: the notebook as handed out; points come from its metadata.
        tasks: the tasks of the notebook.
        seed: the secret behind the hidden cases; `None` uses the visible cases only.
        sandboxed: `None` uses bubblewrap when it is there.
        limits: what the learner's side may use.
        on_task: called with each outcome as soon as it is known.
    """
    started = time.monotonic()
    points = points_of(release)
    outcome = NotebookOutcome(name)
    stuck: set[str] = set()
    with Grader(tasks, seed, sandboxed=sandboxed, limits=limits) as grader:
        for task in tasks:
            result, outputs = grader.grade(task, cells_before_check(notebook, task), stuck)
            result.max_points = points.get(task.name, 0.0)
            result.points = result.max_points if result.status == "passed" else 0.0
            outcome.tasks.append(result)
            outcome.outputs |= outputs
            if on_task is not None:
                on_task(result)
        outcome.sandboxed = grader.sandboxed
    outcome.seconds = time.monotonic() - started
    return outcome


__all__ = ["CaseVerdict", "Finding", "Grader", "NotebookOutcome", "grade_notebook"]

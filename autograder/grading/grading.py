"""From a notebook to the outcome of each of its tasks: the one path that every grade and every check takes.

`fxopt check`, JupyterLab's Validate button, `fxopt grade`, nbgrader's form grader and the exercise gate all
call `Grader` or `grade_notebook`. The learner's cells run in a worker (`sandbox.py`), the verdicts come
from the judge (`judging.py`); this module runs neither and imports no torch.

A notebook is run in two rounds. The first puts the visible cases to every task, and everything that a learner will
read word by word comes from it: printed output, texts of exceptions. The second puts the hidden cases to those tasks
that passed the first, and of it only verdicts in our own words are kept. So nothing that the learner's side learns of
a hidden case, wherever it hides it meanwhile, can come out.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.util import Finalize
from typing import Any

from nbformat import NotebookNode

from autograder.course.notebooks import cells_before_check, points_of
from autograder.course.task import Task
from autograder.exchange.channel import Message
from autograder.exchange.verdict import (
    TaskOutcome,
)
from autograder.grading.budget import (
    HIDDEN_NEVER_RAN,
    NEVER_RAN,
    Budget,
)
from autograder.grading.endings import FAILED_HIDDEN, HIDDEN_FAILED, UNEXPLAINED
from autograder.grading.judging import Judge
from autograder.grading.sandbox import Limits, Worker
from autograder.grading.task_run import TaskRun, Watch
from autograder.grading.view import SandboxError

STUCK_LIMIT = 3
"""How many cells of one notebook may bring the process down before its tasks are no longer tried without them."""

LEFT_OUT = "the cell {cell} did not come to an end; the tasks after it were graded without it"


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
        phases: what of it went where: `starting` (what was not warm yet), `running` (the learner's code), `judging`.
    """

    notebook: str
    tasks: list[TaskOutcome] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    sandboxed: bool = False
    outputs: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    seconds: float = 0.0
    phases: dict[str, float] = field(default_factory=dict)

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
            "phases": {name: round(seconds, 2) for name, seconds in self.phases.items()},
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
        watch: Watch | None = None,
        environment: Mapping[str, str] | None = None,
        judge: Judge | None = None,
        tells_hidden: bool = False,
    ) -> None:
        """Prepare to grade `tasks`.

        Args:
            tasks: the tasks of one notebook.
            seed: the secret from which hidden cases come, unless a submission has its own; `None` judges the visible
                cases only.
            sandboxed: `None` uses bubblewrap when it is there.
            limits: what the learner's side may use.
            watch: is told each visible case with its evidence, as it came from the learner's side; with `tells_hidden`
                each hidden one, too.
            environment: variables for the judge's process.
            judge: one that runs already, and is left running; `None` starts one.
            tells_hidden: whether outcomes tell all that was found on hidden cases, as where whoever reads them knows
                the seed.
        """
        self._watch, self._tells_hidden = watch, tells_hidden
        self._tasks = list(tasks)
        self._seed = seed
        self._sandboxed = sandboxed
        self._limits = limits or Limits()
        self._workers: dict[tuple[str, ...], Worker] = {}
        self._budget = Budget(self._limits.submission_seconds)
        self._hidden_began = False
        self._own_judge = judge is None
        self._judge = judge or Judge(self._limits, environment, sandboxed)
        self._cases: dict[tuple[str, str | None], list[Message]] = {}
        self._answers = {task.answer_id for task in self._tasks}

    def __enter__(self) -> Grader:
        if self._own_judge:
            self._judge.__enter__()
            self._judge.start()
        return self

    def __exit__(self, *error: Any) -> None:
        for worker in self._workers.values():
            worker.close()
        if self._own_judge:
            self._judge.__exit__(*error)

    def _warm_worker(self, task: Task) -> Worker:
        """The worker for a task: tasks that are graded without the same packages share one."""
        if task.without not in self._workers:
            alike = [other for other in self._tasks if other.without == task.without]
            self._workers[task.without] = Worker(alike, self._limits, self._sandboxed).__enter__()
        return self._workers[task.without]

    @property
    def sandboxed(self) -> bool:
        """Whether the learner's side runs in bubblewrap."""
        return self._warm_worker(self._tasks[0]).sandboxed

    def phases(self) -> dict[str, float]:
        """How many seconds of the running submission went into the learner's code and into judging."""
        return {"running": self._budget.used, "judging": self._budget.judged}

    def _cases_of(self, task: Task, hidden: bool) -> list[Message]:
        key = (task.name, self._seed if hidden else None)
        if key not in self._cases:
            self._cases[key] = self._judge.cases(task, key[1])
        return self._cases[key]

    def draw_from(self, seed: str | None) -> None:
        """Let hidden cases come from this secret from now on; `None`: there are none."""
        if seed != self._seed:
            self._cases = {key: cases for key, cases in self._cases.items() if key[1] is None}
            self._seed = seed

    def grade(
        self, task: Task, cells: list[dict[str, str]], stuck: set[str] | None = None
    ) -> tuple[TaskOutcome, dict[str, list[dict[str, Any]]]]:
        """Both rounds of one task: its outcome, and the outputs of the cells that were run for it.

        Of a notebook with several tasks, all must be through the first round before the second begins; see
        `grade_notebook`.
        """
        stuck = set() if stuck is None else stuck
        with self.submission():
            outcome, outputs = self.first_round(task, cells, stuck)
            return self.second_round(task, cells, stuck, outcome), outputs

    @contextmanager
    def submission(self) -> Iterator[None]:
        """What is graded inside belongs to one submission; nothing of it is there for the next one."""
        self._judge.new_submission()
        self._budget = Budget(self._limits.submission_seconds)
        self._hidden_began = False
        for worker in [self._warm_worker(task) for task in self._tasks]:
            worker.end()
        try:
            yield
        finally:
            for worker in self._workers.values():
                worker.end()

    def first_round(
        self, task: Task, cells: list[dict[str, str]], stuck: set[str]
    ) -> tuple[TaskOutcome, dict[str, list[dict[str, Any]]]]:
        """The outcome of one task on its visible cases, and the outputs of the cells that were run for it.

        Args:
            task: the task.
            cells: the code cells before the task's check, each with `id` and `source`.
            stuck: ids of cells that did not finish before; they are left out, and new ones are added. The
                task's own answer is never left out.
        """
        return self._round(task, cells, stuck, hidden=False)

    def second_round(self, task: Task, cells: list[dict[str, str]], stuck: set[str], first: TaskOutcome) -> TaskOutcome:
        """The outcome of one task after its hidden cases too; `first` as it is unless it passed and there is a seed."""
        if first.status != "passed" or self._seed is None:
            return first
        # Which cells do not end now may depend on what was learned of a hidden case: nobody is told.
        second, _ = self._round(task, cells, set(stuck), hidden=True)
        second.cases = first.cases + second.cases
        second.seconds += first.seconds
        return second if self._tells_hidden else _told_of_hidden_cases(first, second)

    def round_until_failure(
        self, task: Task, cells: list[dict[str, str]], cases: list[Message], hidden: bool
    ) -> TaskOutcome:
        """One round on cases of one's own choosing, ended by the first that fails: is the answer wrong, never how."""
        return self._round(task, cells, set(), hidden, cases, until_failure=True)[0]

    def round_of(self, task: Task, cells: list[dict[str, str]], cases: list[Message]) -> TaskOutcome:
        """One round on cases of one's own choosing, to the end; all that is found is told."""
        return self._round(task, cells, set(), True, cases)[0]

    def _round(
        self,
        task: Task,
        cells: list[dict[str, str]],
        stuck: set[str],
        hidden: bool,
        chosen: list[Message] | None = None,
        until_failure: bool = False,
    ) -> tuple[TaskOutcome, dict[str, list[dict[str, Any]]]]:
        worker = self._warm_worker(task)
        cases = self._cases_of(task, hidden) if chosen is None else chosen
        started = time.monotonic()
        again = False
        while True:
            if not self._budget.left:
                if hidden and self._hidden_began:
                    # How much time hidden cases have left may tell something of them.
                    return TaskOutcome(task.name, task.title, "wrong", [HIDDEN_FAILED], [FAILED_HIDDEN]), {}
                text = (HIDDEN_NEVER_RAN if hidden else NEVER_RAN).format(budget=self._budget.seconds)
                return TaskOutcome(task.name, task.title, "time limit", [text], ["never ran"]), {}
            self._hidden_began = self._hidden_began or hidden
            wanted = [cell for cell in cells if cell["id"] not in stuck or cell["id"] == task.answer_id]
            watch = None if hidden and not self._tells_hidden else self._watch
            run = TaskRun(worker, task, wanted, self._limits, self._budget, hidden, watch)
            run.until_failure = until_failure
            outcome = run.outcome(cases, self._judge)
            # What the learner's side says of itself is believed only as far as it makes sense.
            others = {cell["id"] for cell in wanted} - {task.answer_id}
            if outcome is None and run.defining and run.running_cell == task.answer_id:
                stuck.add(task.answer_id)  # spares the tasks after this one the wait
            if outcome is None and worker.lost:
                raise SandboxError("the sandbox was ended from outside while a submission ran in it")
            if outcome is None and worker.killed and not again:
                # By its own code, or from outside (a machine that is short of memory): that shows in a second try.
                again = True
                continue
            if outcome is not None or run.running_cell not in others or len(stuck - self._answers) >= STUCK_LIMIT:
                break
            # Another cell of the notebook brought the process down: this task is graded without it.
            stuck.add(run.running_cell)
        if outcome is None:
            outcome = run.failure()
        outcome.seconds = time.monotonic() - started
        return outcome, run.outputs


def _told_of_hidden_cases(first: TaskOutcome, second: TaskOutcome) -> TaskOutcome:
    """The outcome of both rounds, in which a learner reads of the second no more than one of the judge's own sentences.

    A learner's code sees hidden inputs, and can choose by them how it fails: with which exception, by exhausting what,
    in which order of mistakes, after how long. Whatever is told of that is a message to its author. So all that is told
    is the first misconception that the judge found, or that the code failed in another way than by being wrong.
    """
    second.seconds = first.seconds
    if second.status == "passed" or second.misconceptions == ["never ran"]:
        return second
    known = second.status == "wrong" and second.misconceptions[0] not in UNEXPLAINED
    second.status = "wrong"
    second.messages = second.messages[:1] if known else [HIDDEN_FAILED]
    second.misconceptions = second.misconceptions[:1] if known else [FAILED_HIDDEN]
    return second


WARM_NOTEBOOKS = 2
"""How many notebooks' graders are kept warm at once in one process: each holds torch in memory."""


class _WarmGraders:
    """One judge and the latest few graders, kept from submission to submission."""

    def __init__(self) -> None:
        self._judge: Judge | None = None
        self._graders: OrderedDict[tuple[str, ...], Grader] = OrderedDict()

    def grader(self, tasks: Sequence[Task]) -> Grader:
        """The grader for these tasks: the one from before, or a new one."""
        key = tuple(task.name for task in tasks)
        if key not in self._graders:
            while len(self._graders) >= WARM_NOTEBOOKS:
                self._graders.popitem(last=False)[1].__exit__(None, None, None)
            if self._judge is None:
                self._judge = Judge().__enter__()
                self._judge.start()
            self._graders[key] = Grader(tasks, None, judge=self._judge).__enter__()
        self._graders.move_to_end(key)
        return self._graders[key]

    def close(self) -> None:
        """End all of them."""
        for grader in self._graders.values():
            grader.__exit__(None, None, None)
        if self._judge is not None:
            self._judge.__exit__(None, None, None)
        self._graders.clear()
        self._judge = None


_warm: _WarmGraders | None = None


def keep_warm() -> None:
    """From now on `grade_notebook` keeps its graders from call to call, until `let_go` or the end of this process."""
    global _warm
    if _warm is None:
        _warm = _WarmGraders()
        # Runs at the end of worker processes of `multiprocessing` too, where `atexit` does not.
        Finalize(None, let_go, exitpriority=10)


def let_go() -> None:
    """End the graders that `keep_warm` keeps."""
    global _warm
    if _warm is not None:
        _warm.close()
        _warm = None


@contextmanager
def _grader_for(
    tasks: Sequence[Task], seed: str | None, sandboxed: bool | None, limits: Limits | None, watch: Watch | None
) -> Iterator[Grader]:
    if _warm is not None and sandboxed is None and limits is None and watch is None:
        grader = _warm.grader(tasks)
        grader.draw_from(seed)
        yield grader
        return
    with Grader(tasks, seed, sandboxed=sandboxed, limits=limits, watch=watch) as grader:
        yield grader


def grade_notebook(
    name: str,
    notebook: NotebookNode,
    release: NotebookNode,
    tasks: Sequence[Task],
    seed: str | None,
    *,
    sandboxed: bool | None = None,
    limits: Limits | None = None,
    watch: Watch | None = None,
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
        watch: is told each visible case with its evidence, as it came from the learner's side.
    """
    started = time.monotonic()
    points = points_of(release)
    outcome = NotebookOutcome(name)
    stuck: set[str] = set()
    with _grader_for(tasks, seed, sandboxed, limits, watch) as grader, grader.submission():
        warm = time.monotonic() - started
        cells = {task.name: cells_before_check(notebook, task) for task in tasks}
        first = []
        for task in tasks:
            result, outputs = grader.first_round(task, cells[task.name], stuck)
            first.append(result)
            outcome.outputs |= outputs
        for task, result in zip(tasks, first, strict=True):
            result = grader.second_round(task, cells[task.name], stuck, result)
            result.max_points = points.get(task.name, 0.0)
            result.points = result.max_points if result.status == "passed" else 0.0
            outcome.tasks.append(result)
        outcome.sandboxed = grader.sandboxed
        outcome.phases = {"starting": warm} | grader.phases()
    answers = {task.answer_id for task in tasks}
    outcome.problems = [LEFT_OUT.format(cell=cell) for cell in sorted(stuck - answers)]
    outcome.seconds = time.monotonic() - started
    return outcome


__all__ = ["Grader", "NotebookOutcome", "grade_notebook", "keep_warm", "let_go"]

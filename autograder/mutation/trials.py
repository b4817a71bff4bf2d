"""One mutant through the real grading path: is it killed, by what, and with which seeds? Imports no torch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Literal, Self

from autograder.course.task import Task
from autograder.exchange.channel import Message
from autograder.exchange.verdict import TaskOutcome
from autograder.grading.grading import Grader
from autograder.grading.judging import Judge
from autograder.grading.sandbox import Limits
from autograder.grading.view import SandboxError
from autograder.mutation.answers import AuthoredNotebook

Status = Literal["killed", "some seeds", "survived"]

LIMITS = Limits(memory_bytes=3 << 30, processes=32, submission_seconds=150.0, judge_seconds=30.0, graph_seconds=20.0)
"""What a mutant may use: less than a learner's answer, because many of them loop; every right answer keeps within."""

SHORTEST, TIMES_AS_LONG = 5.0, 10.0
"""A mutant may take ten times as long as the reference for the cases that it is given at once, and five seconds in any
case, before it counts as a loop; it never gets more time than a learner's answer."""


class NotPassedError(RuntimeError):
    """An answer that must be right does not pass, so nothing can be said of its mutants."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant.

    Attributes:
        status: `killed` with every seed, with `some seeds` only, or `survived` all of them.
        by: what killed it first: the case and the misconception that the judge found, or how the process ended.
        fixed: whether a case killed it that is the same for every seed.
        seconds: wall time of its gradings together.
    """

    status: Status
    by: str
    fixed: bool
    seconds: float


def seeds_of(count: int) -> tuple[str, ...]:
    """The secrets that mutants are tried with; the same in every run."""
    return tuple(f"mutation {number}" for number in range(1, count + 1))


@dataclass(frozen=True)
class Cases:
    """A task's cases, parted by what decides about them.

    Attributes:
        visible: those that a learner sees.
        fixed: hidden cases that every seed gives.
        drawn: for each seed the other hidden cases.
        whole: for each seed all hidden cases in their order.
    """

    visible: list[Message]
    fixed: list[Message]
    drawn: list[list[Message]]
    whole: list[list[Message]]

    @property
    def rearranged(self) -> bool:
        """Whether a mutant sees hidden cases in another order than a learner's answer would."""
        return any(hidden != [*self.fixed, *drawn] for hidden, drawn in zip(self.whole, self.drawn, strict=True))


def parted(visible: list[Message], whole: list[list[Message]]) -> Cases:
    """Cases by what decides about them; a hidden case is fixed when it is the same with every seed."""
    first, *others = whole
    fixed = [case for case in first if all(case in other for other in others)] if others else []
    return Cases(visible, fixed, [[case for case in hidden if case not in fixed] for hidden in whole], whole)


class Trials:
    """Tries answers to the tasks of one notebook, with one worker and one judge for all of them. A context manager."""

    def __init__(self, notebook: AuthoredNotebook, judge: Judge, seeds: Sequence[str]) -> None:
        """Prepare trials.

        Args:
            notebook: the notebook as its authors wrote it.
            judge: one that runs, with `LIMITS`, and is left running.
            seeds: the secrets that hidden cases come from.
        """
        self._notebook = notebook
        self._judge, self._seeds = judge, tuple(seeds)
        self._grader = Grader(notebook.tasks, None, limits=LIMITS, judge=judge)
        self._cases: dict[str, Cases] = {}
        self._allowed: dict[tuple[str, str], Task] = {}
        self._longest_round = 0.0

    def __enter__(self) -> Self:
        self._grader.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._grader.__exit__(kind, error, trace)

    def cases_of(self, task: Task) -> Cases:
        """The task's cases with every seed."""
        if task.name not in self._cases:
            whole = [self._judge.cases(task, seed) for seed in self._seeds]
            self._cases[task.name] = parted(self._judge.cases(task), whole)
        return self._cases[task.name]

    def right(self, task: Task, name: str) -> float:
        """Make sure that an answer passes before its mutants are tried; its time in seconds.

        Asked again it remembers, and answers 0.

        Raises:
            NotPassedError: it does not.
            SandboxError: there is no bubblewrap here.
        """
        if not self._grader.sandboxed:  # also starts the worker, whose start is no part of the answer's time
            raise SandboxError(
                "mutants loop, fork and write files: they are tried in bubblewrap only, which is not here"
            )
        if (task.name, name) in self._allowed:
            return 0.0
        cells = self._notebook.cells(task, self._notebook.answers(task)[name])
        verdict = self._tried(task, cells)
        if verdict.status == "survived":
            self._longest_round = 0.0
            verdict = self._tried(task, cells)  # the first one imports and fills caches: it tells no time
        if verdict.status != "survived":
            raise NotPassedError(f"{task.name}: {name} does not pass itself ({verdict.by}), so its mutants say nothing")
        allowed = min(task.seconds, max(SHORTEST, TIMES_AS_LONG * self._longest_round))
        self._allowed[task.name, name] = replace(task, seconds=allowed)
        return verdict.seconds

    def mutant(self, task: Task, name: str, source: str) -> Verdict:
        """What becomes of a mutant of the answer `name`, which must pass itself (see `right`)."""
        self.right(task, name)
        return self._tried(self._allowed[task.name, name], self._notebook.cells(task, source))

    def _tried(self, task: Task, cells: list[dict[str, str]]) -> Verdict:
        started = time.monotonic()
        cases = self.cases_of(task)
        with self._grader.submission():
            status, by, fixed = self._killed(task, cells, cases)
        if status == "survived" and cases.rearranged:
            # In the order of a real grade, where something may be left over from the case before. The cases are those
            # that it has passed, so one seed tells whether their order matters.
            with self._grader.submission():
                first, *others = cases.whole
                if by := self._failure(task, cells, first, True):
                    status, by = _over_seeds([by, *(self._failure(task, cells, whole, True) for whole in others)])
        return Verdict(status, by, fixed, round(time.monotonic() - started, 3))

    def _killed(self, task: Task, cells: list[dict[str, str]], cases: Cases) -> tuple[Status, str, bool]:
        """Status, killer and whether it is the same with every seed."""
        if by := self._failure(task, cells, cases.visible, False):
            return "killed", by, True
        if cases.fixed and (by := self._failure(task, cells, cases.fixed, True)):
            return "killed", by, True
        return *_over_seeds([self._failure(task, cells, drawn, True) if drawn else "" for drawn in cases.drawn]), False

    def _failure(self, task: Task, cells: list[dict[str, str]], cases: list[Message], hidden: bool) -> str:
        """What an answer fails by on these cases; `""` when it passes them."""
        outcome = self._grader.round_until_failure(task, cells, cases, hidden)
        self._longest_round = max(self._longest_round, outcome.seconds)
        return "" if outcome.status == "passed" else described(outcome)


def _over_seeds(failures: list[str]) -> tuple[Status, str]:
    by = next((failure for failure in failures if failure), "")
    return ("survived" if not by else "killed" if all(failures) else "some seeds"), by


def described(outcome: TaskOutcome) -> str:
    """What an answer failed by, in a few words: `visible case 'a chain': keywords dropped`."""
    failed = next((case for case in outcome.cases if not case.passed), None)
    name = outcome.misconceptions[0] if outcome.misconceptions else outcome.status
    if failed is None:
        return name
    return f"{'hidden' if failed.hidden else 'visible'} case {failed.case!r}: {name}"

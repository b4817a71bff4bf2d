"""Grades many notebooks at once, in several processes, while one process writes what they come to. Imports no torch."""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from types import TracebackType
from typing import Any, Protocol, Self

from autograder.grading.grading import NotebookOutcome, let_go
from autograder.grading.work import TRIES, InfrastructureError, Work, do, outcome_of


class Graders(Protocol):
    """What grades works: this process, several ones (`Batch`), or a cluster (`Cluster`). A context manager.

    Attributes:
        ahead: how many notebooks to hand over before the first one is asked for.
    """

    ahead: int

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def submit(self, work: Work) -> Future[dict[str, Any]]:
        """Have a work done; the future may end with an exception when its process was lost."""
        ...

    def outcome(self, work: Work, future: Future[dict[str, Any]]) -> NotebookOutcome:
        """Wait for what came of a work that was submitted.

        Raises:
            InfrastructureError: grading itself failed, or the work was lost again and again.
        """
        ...


class Here:
    """Grades in this process, when the outcome is asked for."""

    ahead = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        let_go()

    def submit(self, work: Work) -> Future[dict[str, Any]]:
        """Grade it now."""
        future: Future[dict[str, Any]] = Future()
        future.set_result(do(work))
        return future

    def outcome(self, work: Work, future: Future[dict[str, Any]]) -> NotebookOutcome:
        """What came of it."""
        return outcome_of(future.result())


class Batch:
    """Several processes that grade ahead of the one that writes. Use it as a context manager."""

    AHEAD = 3
    """How many notebooks wait for each process at most."""

    def __init__(self, jobs: int) -> None:
        """Prepare a batch.

        Args:
            jobs: number of processes that grade, each with a warm worker and a judge of its own.

        Raises:
            ValueError: fewer than one.
        """
        if jobs < 1:
            raise ValueError(f"--jobs {jobs}: at least one process must grade")
        self.jobs = jobs
        self.ahead = self.AHEAD * jobs

    def __enter__(self) -> Self:
        self._pool = _pool(self.jobs)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def submit(self, work: Work) -> Future[dict[str, Any]]:
        """Have a notebook graded by the next process that is free."""
        try:
            return self._pool.submit(do, work)
        except BrokenProcessPool:
            self._pool.shutdown(cancel_futures=True)
            self._pool = _pool(self.jobs)
            return self._pool.submit(do, work)

    def outcome(self, work: Work, future: Future[dict[str, Any]]) -> NotebookOutcome:
        """Wait for the outcome; a work whose process was lost is done again, by another one."""
        try:
            return outcome_of(future.result())
        except BrokenProcessPool:
            return _alone(work)


def _alone(work: Work) -> NotebookOutcome:
    """Grade in a process for this work only: which of several was to blame for a loss cannot be told."""
    for _ in range(1, TRIES):
        with _pool(1) as pool:
            try:
                return outcome_of(pool.submit(do, work).result())
            except BrokenProcessPool:
                continue
    raise InfrastructureError(f"the process that graded {work.name} was lost {TRIES} times")


def _pool(jobs: int) -> ProcessPoolExecutor:
    # Started anew, not forked: this process may hold threads, a database and a learner's notebook.
    return ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn"), initializer=end_with_parent)


def end_with_parent() -> None:
    """Let this process end when the one that started it does, by a kill too: nobody would ever ask for its work."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        # The judge and the worker see that their channels close, and end.
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="end with parent").start()

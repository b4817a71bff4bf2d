"""Grades many notebooks at once, in several processes, while one process writes what they come to. Imports no torch."""

from __future__ import annotations

import multiprocessing
from collections import defaultdict, deque
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, Self

from nbformat import NotebookNode

from autograder.course.task import Task
from autograder.grading.grading import NotebookOutcome, graded_ahead
from autograder.grading.work import do, key_of, outcome_of, work_for


class Batch:
    """Several processes that grade ahead of the one that writes. Use it as a context manager.

    Inside, `grade_notebook` takes the outcome of a notebook that was announced from the process that graded it; one
    that was not announced, or whose process was lost, it grades itself. Nothing depends on announcing but time.
    """

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
        self._announced: defaultdict[str, deque[Future[dict[str, Any]]]] = defaultdict(deque)

    def __enter__(self) -> Self:
        # Started anew, not forked: this process may hold threads, a database and a learner's notebook.
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(self.jobs, mp_context=context)
        self._ahead = graded_ahead(self._outcome)
        self._ahead.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ahead.__exit__(kind, error, trace)
        self._pool.shutdown(cancel_futures=True)

    def announce(
        self, name: str, notebook: NotebookNode, release: NotebookNode, tasks: Sequence[Task], seed: str | None
    ) -> None:
        """Have a notebook graded that will be asked for. The arguments are those of `grade_notebook`."""
        known = tuple(tasks)
        work = work_for(name, notebook, release, known, seed)
        try:
            future = self._pool.submit(do, work)
        except BrokenProcessPool:
            self._replace_pool()
            future = self._pool.submit(do, work)
        # Two students may hand in the same, the empty notebook above all: each is graded.
        self._announced[key_of(notebook, release, known, seed)].append(future)

    def _replace_pool(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._pool = ProcessPoolExecutor(self.jobs, mp_context=multiprocessing.get_context("spawn"))

    def _outcome(
        self, notebook: NotebookNode, release: NotebookNode, tasks: Sequence[Task], seed: str | None
    ) -> NotebookOutcome | None:
        """The outcome of a notebook that was announced, as soon as it is there; `None` for one that is not coming."""
        key = key_of(notebook, release, tuple(tasks), seed)
        waiting = self._announced.get(key)
        if not waiting:
            return None
        future = waiting.popleft()
        if not waiting:
            del self._announced[key]
        try:
            return outcome_of(future.result())
        except BrokenProcessPool:
            return None

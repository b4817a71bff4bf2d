"""Mutants of many tasks: what is known is taken from the cache, the rest is tried, in several processes if wanted.

Imports no torch.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing.util import Finalize
from pathlib import Path

from autograder.authoring.contents import grading_digest
from autograder.course.course import Course
from autograder.course.judges import JudgeError
from autograder.course.task import Task
from autograder.course.tasks import find_task
from autograder.grading.batch import end_with_parent
from autograder.grading.judging import Judge
from autograder.grading.view import SandboxError
from autograder.mutation.answers import AuthoredNotebook
from autograder.mutation.cache import VerdictCache
from autograder.mutation.equivalents import read_equivalents
from autograder.mutation.mutants import Mutant, mutants_of
from autograder.mutation.results import Row, TaskMutation
from autograder.mutation.trials import LIMITS, NotPassedError, Trials, Verdict, seeds_of

SEEDS = 3
"""With how many secrets each mutant is tried, unless one asks for more."""

PORTION = 16
"""How many mutants a process is given at once."""

Select = Callable[[Task, list[Mutant]], list[Mutant]]
"""Which of a task's mutants to try."""


@dataclass(frozen=True)
class Portion:
    """Some mutants of one answer, as they travel to a process.

    Attributes:
        root: the course's folder.
        task: the task's name.
        answer: the name of the answer that was mutated.
        mutants: the mutants' sources.
        seeds: the secrets behind the hidden cases.
    """

    root: str
    task: str
    answer: str
    mutants: tuple[str, ...]
    seeds: tuple[str, ...]


class _Warm:
    """The judge and the worker of this process, kept from portion to portion: the worker for one notebook at a time."""

    def __init__(self) -> None:
        self.key: tuple[str, str, tuple[str, ...]] | None = None
        self.judge: Judge | None = None
        self.trials: Trials | None = None

    def trials_for(self, portion: Portion, task: Task) -> Trials:
        key = (portion.root, task.notebook, portion.seeds)
        if self.trials is None or self.key != key:
            if self.trials is not None:
                self.trials.__exit__(None, None, None)
                self.trials = None
            if self.judge is None:
                self.judge = Judge(LIMITS).__enter__()
                self.judge.start()
            notebook = AuthoredNotebook(Course(Path(portion.root)), task.notebook)
            self.trials = Trials(notebook, self.judge, portion.seeds).__enter__()
            self.key = key
        return self.trials

    def close(self) -> None:
        trials, judge = self.trials, self.judge
        self.trials = self.judge = None
        if trials is not None:
            trials.__exit__(None, None, None)
        if judge is not None:
            judge.__exit__(None, None, None)


_warm = _Warm()
# Runs at the end of worker processes of `multiprocessing` too, where `atexit` does not.
Finalize(None, _warm.close, exitpriority=10)


def try_portion(portion: Portion) -> list[Verdict]:
    """The verdicts on some mutants, in their order.

    Raises:
        NotPassedError: the answer that was mutated does not pass itself.
        SandboxError, JudgeError: the graders do not run here, tried twice.
    """
    task = find_task(portion.task)
    verdicts = []
    for source in portion.mutants:
        try:
            verdict = _warm.trials_for(portion, task).mutant(task, portion.answer, source)
        except (SandboxError, JudgeError):
            _warm.close()  # a busy machine, or something that the mutant left: once more, with everything new
            verdict = _warm.trials_for(portion, task).mutant(task, portion.answer, source)
        verdicts.append(verdict)
    return verdicts


def mutate(
    course: Course,
    tasks: Sequence[str],
    *,
    seeds: int = SEEDS,
    jobs: int = 1,
    select: Select | None = None,
) -> Iterator[TaskMutation]:
    """Try every mutant of every right answer of these tasks; each task as soon as it is done, in the given order.

    Args:
        course: where sources, notebooks and records lie.
        tasks: names of tasks.
        seeds: with how many secrets.
        jobs: how many processes try at once; each takes about 1 GiB.
        select: which of a task's mutants to try; `None` tries all. Entries of `equivalent.toml` that name no mutant
            are told in any case.

    Raises:
        UnknownTaskError: there is no such task.
        ValueError: fewer than one seed or process.
        EquivalentsError: a task's `equivalent.toml` cannot be used.
        SandboxError, JudgeError: the graders do not run here.
    """
    if seeds < 1 or jobs < 1:
        raise ValueError(f"--seeds {seeds} --jobs {jobs}: at least one of each is needed")
    known = [find_task(name) for name in tasks]
    for task in known:
        read_equivalents(task)  # what cannot be read is told before hours have passed
    with VerdictCache.of(course) as cache:
        if jobs == 1:
            try:
                for task in known:
                    yield _mutated(course, task, cache, seeds_of(seeds), select, _later)
            finally:
                _warm.close()
            return
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=context, initializer=end_with_parent) as pool:
            for task in known:
                yield _mutated(
                    course,
                    task,
                    cache,
                    seeds_of(seeds),
                    select,
                    lambda portion: pool.submit(try_portion, portion).result,
                )


def _later(portion: Portion) -> Callable[[], list[Verdict]]:
    return lambda: try_portion(portion)


def _mutated(
    course: Course,
    task: Task,
    cache: VerdictCache,
    seeds: tuple[str, ...],
    select: Select | None,
    begin: Callable[[Portion], Callable[[], list[Verdict]]],
) -> TaskMutation:
    """One task; `begin` has a portion tried and gives what waits for it."""
    notebook = AuthoredNotebook(course, task.notebook)
    answers = notebook.answers(task)
    mutants = [mutant for name, answer in answers.items() for mutant in mutants_of(name, answer)]
    equivalents = read_equivalents(task)
    found = TaskMutation(task.name, problems=equivalents.unmatched(mutants))
    wanted = mutants if select is None else select(task, mutants)
    grading = grading_digest(task)
    keys = {mutant: cache.key(grading, notebook.cells(task, mutant.source), seeds) for mutant in wanted}
    verdicts = {mutant: verdict for mutant, key in keys.items() if (verdict := cache.get(key)) is not None}
    found.cached = len(verdicts)
    waiting = []
    for name in answers:
        missing = [mutant for mutant in wanted if mutant.answer == name and mutant not in verdicts]
        for start in range(0, len(missing), PORTION):
            some = missing[start : start + PORTION]
            portion = Portion(str(course.root), task.name, name, tuple(mutant.source for mutant in some), seeds)
            waiting.append((some, begin(portion)))
    for some, result in waiting:
        try:
            tried = result()
        except NotPassedError as error:
            if str(error) not in found.problems:
                found.problems.append(str(error))
            continue
        for mutant, verdict in zip(some, tried, strict=True):
            verdicts[mutant] = verdict
            cache.put(keys[mutant], verdict)
    found.rows = [
        Row(mutant, verdicts[mutant], equivalents.reasons.get(mutant.key, ""))
        for mutant in wanted
        if mutant in verdicts
    ]
    return found

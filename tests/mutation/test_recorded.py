"""The committed table of mutants is true: of changed tasks many are tried, of the others a fixed sample.

`make test-long` sets FXOPT_LONG, and then all mutants of all tasks are tried (hours on two cores, unless a run of
`fxopt mutate` before has left its verdicts in the cache).
"""

import ast
import os
from functools import cache
from pathlib import Path

import pytest
from classroom import need_bubblewrap

from autograder.authoring.contents import digest
from autograder.course.course import Course
from autograder.course.task import Task
from autograder.course.tasks import all_tasks, find_task
from autograder.mutation.answers import AuthoredNotebook
from autograder.mutation.mutants import Mutant
from autograder.mutation.recorded import changed, recorded
from autograder.mutation.results import TaskMutation
from autograder.mutation.running import Select, mutate

COURSE = Course(Path(__file__).resolve().parents[2])

LONG = "FXOPT_LONG" in os.environ

SAMPLED = ("check_stack", "run_graph", "conv_output_shape")
"""Tasks of which a few mutants are tried in every run: they share a notebook, whose worker takes seconds to start."""

MUTANTS_A_TASK = 6

MUTANTS_OF_CHANGED_TASKS = 36
"""How many mutants `make test` tries of all changed tasks together, unless that is fewer than `FEWEST` of each."""

FEWEST = 4
"""How many mutants are tried of each changed task, however many there are."""

FEWEST_MUTANTS = 20
"""A task has more mutants than these, unless `enough_wrong_answers` make up for it."""

FEWEST_WRONG = 12
"""Wrong answers of a task that is written in C++ or as a table: there is little Python to edit."""


def sampled(count: int) -> Select:
    """The same few mutants in every run.

    They are taken from as few right answers as will do: each of these is graded twice before its first mutant.
    """

    def select(task: Task, mutants: list[Mutant]) -> list[Mutant]:
        mixed = sorted(mutants, key=lambda mutant: digest([task.name, mutant.digest]))
        return sorted(mixed, key=lambda mutant: digest([task.name, mutant.answer]))[:count]

    return select


def worse(result: TaskMutation) -> list[str]:
    """What is wrong with a result: what is claimed and not so, and the mutants that live."""
    living = [*result.of("survivor"), *result.of("some seeds")]
    return [*result.problems, *result.false_claims, *(row.mutant.described() for row in living)]


def share_in_strings(answer: str) -> float:
    """How much of an answer stands in strings, of which nothing is edited: C++, or a table."""
    strings = [node.value for node in ast.walk(ast.parse(answer)) if isinstance(node, ast.Constant)]
    return sum(len(text) for text in strings if isinstance(text, str)) / len(answer)


def enough_wrong_answers(name: str) -> bool:
    """Whether each right answer of a task is mostly text, and its wrong answers try the judge instead of mutants."""
    task = find_task(name)
    answers = AuthoredNotebook(COURSE, task.notebook).answers(task).values()
    in_text = all(share_in_strings(answer) > 0.5 for answer in answers)
    return in_text and len([*(task.folder / "wrong").glob("*.py")]) >= FEWEST_WRONG


@cache
def tried_now() -> list[str]:
    """The tasks of which more than a few mutants are tried."""
    return [task.name for task in (all_tasks() if LONG else changed(COURSE))]


NOTEBOOKS = sorted({task.notebook for task in all_tasks()})


@pytest.mark.sampled
@pytest.mark.timeout(24 * 3600 if LONG else 1800)
@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_no_mutant_of_a_changed_task_survives(notebook: str) -> None:
    """Tasks of one notebook together: what they need takes seconds to start. All seeds in `make test-long` only."""
    tasks = [task for task in tried_now() if find_task(task).notebook == notebook]
    if not tasks:
        return  # all are as they were when all their mutants were killed
    need_bubblewrap()
    count = max(FEWEST, MUTANTS_OF_CHANGED_TASKS // len(tried_now()))
    results = [*mutate(COURSE, tasks)] if LONG else [*mutate(COURSE, tasks, seeds=1, select=sampled(count))]
    off = [f"{result.task}: {line}" for result in results for line in worse(result)]
    assert off == [], "write a case for each, or a reason; then `fxopt mutate TASK --record`"
    assert [result.task for result in results] == tasks
    assert all(len(result.rows) >= FEWEST for result in results)


def test_a_sample_of_the_other_mutants_is_killed_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_bubblewrap()
    # Without what is remembered: the graders of today must do it.
    monkeypatch.setenv("FXOPT_MUTATION_CACHE", str(tmp_path / "mutation.db"))
    for result in mutate(COURSE, SAMPLED, seeds=1, select=sampled(MUTANTS_A_TASK)):
        assert len(result.rows) == MUTANTS_A_TASK
        assert worse(result) == []
        assert len(result.of("killed")) > MUTANTS_A_TASK // 2


def test_only_what_is_written_in_text_may_have_few_mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    assert enough_wrong_answers("inside_a_tensor")
    assert enough_wrong_answers("stable_decay")
    assert not enough_wrong_answers("toy_backend"), "in Python, whatever its wrong answers"
    assert share_in_strings('code = "int main() {}"') > 0.5 > share_in_strings("def double(x): return 2 * x")
    monkeypatch.setitem(globals(), "FEWEST_WRONG", 100)
    assert not enough_wrong_answers("stable_decay"), "in C++, with too few wrong answers"


def test_every_task_is_recorded_and_no_mutant_survives() -> None:
    table = recorded()
    assert {task.name for task in all_tasks()} <= set(table), "run `fxopt mutate TASK --record`"
    for name, entry in table.items():
        counts = entry["counts"]
        assert entry["survivors"] == entry["some seeds"] == [], f"{name}: write a case for each, or a reason"
        assert counts["mutants"] > FEWEST_MUTANTS or enough_wrong_answers(name), f"{name}: too little was tried"
        parts = counts["killed"] + counts["some seeds"] + counts["equivalent"] + counts["survivors"]
        assert parts == counts["mutants"], name
        assert counts["survivors"] == counts["some seeds"] == 0, name
        assert counts["killed"] >= 3 * counts["equivalent"], f"{name}: too much is called equivalent"

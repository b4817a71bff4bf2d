"""What each task's points rest on, and how little of it is only seen inside the learner's process.

The share of a task that could be forged is that of its wrong answers which forged values would let through, as
`forged_values.py` finds them (`make torture` compares all of them with the table).
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from forged_values import forged

from autograder.authoring.gate import documented
from autograder.course.course import Course
from autograder.course.judges import judge_module
from autograder.course.notebooks import points_of
from autograder.course.reading import read_notebook
from autograder.course.task import UNITS, Task
from autograder.course.tasks import all_tasks, find_task

ROOT = Path(__file__).parents[2]

MOST = 0.2
"""Largest share of a day's points that may rest on what a probe alone saw."""


def misconceptions(task: Task) -> list[str]:
    """Of each wrong answer that the task ships, what is wrong with it."""
    return [documented(path)[0] for path in sorted((task.folder / "wrong").glob("*.py"))]


def measured_share(task: Task) -> float:
    """The share of the task's wrong answers that only a probe tells from right ones."""
    if task.evidence == "measured":
        return 1.0
    wrong = misconceptions(task)
    return sum(name in task.measured for name in wrong) / len(wrong)


def test_what_is_measured_decides_at_most_a_fifth_of_a_day() -> None:
    points = {}
    for path in (ROOT / "curriculum").glob("*/ex_*.ipynb"):
        points |= points_of(read_notebook(path))
    shares: dict[str, float] = defaultdict(float)
    for task in all_tasks():
        shares[task.unit] += points.get(task.name, 0.0) * measured_share(task)
    assert set(shares) == set(UNITS)
    assert {unit: share for unit, share in shares.items() if share > 100 * MOST} == {}
    assert any(shares.values())


@pytest.mark.parametrize("task", all_tasks(), ids=lambda task: task.name)
def test_what_is_measured_is_a_misconception_and_not_all_of_them(task: Task) -> None:
    known = set(judge_module(task).MISCONCEPTIONS)
    assert set(task.measured) < known
    if task.evidence == "measured":
        assert task.measured


def test_every_task_stands_in_the_guide() -> None:
    guide = (ROOT / "docs" / "evidence.md").read_text()
    rows = {line.split("|")[1].strip(" `"): line for line in guide.splitlines() if line.startswith("| `")}
    for task in all_tasks():
        assert task.name in rows, f"docs/evidence.md has no row for {task.name}"
        assert f"| {task.evidence} |" in rows[task.name], task.name
    assert set(rows) == {task.name for task in all_tasks()}


@pytest.mark.parametrize("name", ["build_mlp", "insert_after"])
def test_forged_values_let_through_what_the_table_says(name: str) -> None:
    """Two tasks whose wrong answers are quickly tried; the others are under `make torture`."""
    task = find_task(name)
    assert Course(ROOT).solutions.is_dir()
    through = {misconception for _, misconception, passed in forged(task) if passed}
    assert through - set(task.measured) <= {"traced"}  # tracers are hollow where it is graded

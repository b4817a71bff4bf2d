"""The exercise gate, a test per task: reference, blank, wrong, alternative and sabotaged answers."""

from pathlib import Path

import pytest

from autograder.course import Course
from autograder.gate import run_gate
from autograder.tasks import all_tasks

COURSE = Course(Path(__file__).resolve().parents[1])


@pytest.mark.gate
@pytest.mark.parametrize("task", [task.name for task in all_tasks()])
def test_gate(task: str) -> None:
    result = run_gate(COURSE, task)
    assert len(result.rows) >= 12
    off = [
        f"{row.answer}: expected {row.expected}, found {row.found} {list(row.messages)}"
        for row in result.rows
        if not row.ok
    ]
    assert not off, "\n".join(off)

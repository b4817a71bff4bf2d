"""The success checklist of Week 1, ticked by what was verified. Imports no torch.

The lines stand in `Week1.md`, each with its key in a comment; which tasks tick which key stands in the tables
of tasks. A line is ticked when every task that counts towards it was passed in a grade.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from autograder.course.course import Course
from autograder.course.progress import latest
from autograder.course.task import Task, WrittenTask
from autograder.course.tasks import all_tasks, written_tasks
from fxopt_workbench.tables import Table

LINE = re.compile(r"^- \[ \] (?P<text>.*?)\s*<!-- key: (?P<key>[\w-]+) -->\s*$", re.MULTILINE)


@dataclass(frozen=True)
class ChecklistItem:
    """One line of the checklist.

    Attributes:
        key: its key.
        text: as it stands in `Week1.md`.
        tasks: the tasks that count towards it, none when no exercise is built yet.
    """

    key: str
    text: str
    tasks: tuple[Task | WrittenTask, ...]


def read_checklist(week: Path) -> list[ChecklistItem]:
    """The checklist of a week.

    Raises:
        LookupError: a task names a key that the week's checklist does not have.
    """
    found = [(match["key"], match["text"]) for match in LINE.finditer(week.read_text())]
    keys = {key for key, _ in found}
    tasks: list[Task | WrittenTask] = [*all_tasks(), *written_tasks()]
    for task in tasks:
        unknown = set(task.checklist) - keys
        if unknown:
            raise LookupError(f"task {task.name} names {sorted(unknown)}, which {week.name} does not list")
    return [ChecklistItem(key, text, tuple(task for task in tasks if key in task.checklist)) for key, text in found]


def state_of(item: ChecklistItem, statuses: dict[tuple[str, str], str]) -> tuple[str, str]:
    """(mark, explanation) of one line, from the latest status of each check and grade."""
    if not item.tasks:
        return "[ ]", "no exercise for this is built yet"
    graded = sum(statuses.get(("grade", task.name)) == "passed" for task in item.tasks)
    checked = sum(
        statuses.get(("check", task.name)) == "passed" and statuses.get(("grade", task.name)) != "passed"
        for task in item.tasks
    )
    explanation = f"{graded} of {len(item.tasks)} tasks graded as passed"
    if checked:
        explanation += f", {checked} more pass their check: submit them"
    return ("[x]" if graded == len(item.tasks) else "[ ]"), explanation


def checklist_table(course: Course) -> Table:
    """The checklist for a terminal."""
    statuses = latest(course.workspace)
    rows = []
    for item in read_checklist(course.root / "Week1.md"):
        mark, explanation = state_of(item, statuses)
        rows.append((mark, item.text, explanation))
    headings = ("", "I can …", "verified by")
    return Table("Week 1: success checklist", headings, rows, words=headings)

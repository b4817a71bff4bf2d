"""The success checklists of the tracks, ticked by what was verified, and tasks counted by unit. Imports no torch.

The lines stand on the page of each track, each with its key in a comment; which tasks tick which key stands in the
tables of tasks. A line is ticked when every task that counts towards it was passed in a grade.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from autograder.course.course import Course
from autograder.course.progress import latest
from autograder.course.task import Task, WrittenTask
from autograder.course.tasks import all_tasks, written_tasks
from autograder.course.tracks import TRACKS, Track
from fxopt_workbench.tables import Table

LINE = re.compile(r"^- \[ \] (?P<text>.*?)\s*<!-- key: (?P<key>[\w-]+) -->\s*$", re.MULTILINE)


@dataclass(frozen=True)
class ChecklistItem:
    """One line of the checklist.

    Attributes:
        key: its key.
        text: as it stands on the page.
        tasks: the tasks that count towards it, none when no exercise is built yet.
    """

    key: str
    text: str
    tasks: tuple[Task | WrittenTask, ...]


def read_checklist(folder: Path, track: Track) -> list[ChecklistItem]:
    """The checklist of a track.

    Args:
        folder: where the pages of the tracks lie.
        track: the track.

    Raises:
        LookupError: a task of the track names a key that its page does not have.
    """
    page = folder / track.page
    found = [(match["key"], match["text"]) for match in LINE.finditer(page.read_text())]
    keys = {key for key, _ in found}
    units = {unit.name for unit in track.units}
    every: list[Task | WrittenTask] = [*all_tasks(), *written_tasks()]
    tasks = [task for task in every if task.unit in units]
    for task in tasks:
        unknown = set(task.checklist) - keys
        if unknown:
            raise LookupError(f"task {task.name} names {sorted(unknown)}, which {page.name} does not list")
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


def unit_rows(track: Track, statuses: dict[tuple[str, str], str]) -> list[tuple[str, ...]]:
    """For each unit of a track: its heading, and of how many tasks the check passes and the grade was passed."""
    rows = []
    for unit in track.units:
        tasks = [task.name for task in all_tasks() if task.unit == unit.name]
        cells = [unit.heading]
        for kind in ("check", "grade"):
            passed = sum(statuses.get((kind, name)) == "passed" for name in tasks)
            cells.append(f"{passed} of {len(tasks)}")
        rows.append(tuple(cells))
    return rows


def checklist_tables(course: Course) -> list[Table]:
    """The checklist of each track, and its tasks counted by unit, for a terminal."""
    statuses = latest(course.workspace)
    headings = ("", "I can …", "verified by")
    tables = []
    for track in TRACKS:
        # An instructor may hand out some of the tracks only.
        if not (course.root / track.page).is_file():
            continue
        rows = []
        for item in read_checklist(course.root, track):
            mark, explanation = state_of(item, statuses)
            rows.append((mark, item.text, explanation))
        tables.append(Table(f"{track.name}: success checklist", headings, rows, words=headings))
        counted = ("unit", "tasks whose check passes", "tasks graded as passed")
        tables.append(Table(f"{track.name}: your tasks", counted, unit_rows(track, statuses)))
    return tables

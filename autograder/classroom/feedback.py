"""Bringing feedback pages up to date with points that a person gave, at once. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry

from autograder.course.converting import convert
from autograder.course.course import Course, find_course, student
from autograder.course.progress import append_event, latest
from autograder.course.rules_file import read_rules
from autograder.course.task import UNITS
from autograder.course.tasks import all_tasks, written_tasks
from autograder.records.gradebook import feedback_of
from autograder.records.late_penalties import set_penalty
from autograder.records.manual_grades import cell_grades
from fxopt_workbench.files import write_whole


def write_feedback(course: Course, who: str, unit: str) -> list[Path]:
    """Make the feedback pages of one graded submission anew, with the points as they are now; where the pages are.

    What lateness costs is taken of these points, too. Pages of this machine's student are also laid into the workspace.

    Raises:
        Exception: nbgrader failed; what it failed with.
    """
    rules = read_rules(course)
    notebooks = sorted(path.stem for path in (course.records / "autograded" / who / unit).glob("*.ipynb"))
    for name in notebooks:
        try:
            set_penalty(course.database, rules, who, unit, name)
        except MissingEntry:
            continue
    convert(feedback_of(course, who, unit))
    pages = [course.feedback / who / unit / f"{name}.html" for name in notebooks]
    graded = {task.notebook for task in all_tasks()} | {task.notebook for task in written_tasks()}
    for page in pages:
        if who == student() and page.is_file() and page.stem in graded:
            write_whole(course.workspace / "feedback" / page.name, page.read_bytes())
    return pages


def note_written_points(course: Course) -> None:
    """Note in the workspace which written answers of this machine's student a person has graded by now."""
    known = latest(course.workspace)
    titles = {(UNITS[task.unit], task.notebook, task.name) for task in written_tasks()}
    with Gradebook(course.database, "fxopt") as gradebook:
        for grade in cell_grades(gradebook, student()):
            if (grade.assignment, grade.notebook, grade.name) not in titles or grade.person is None:
                continue
            status = "passed" if 2 * grade.person >= grade.max_points else "wrong"
            if known.get(("grade", grade.name)) != status:
                append_event(course.workspace, "grade", grade.name, status)


def main(who: str, unit: str) -> None:
    """Make the feedback pages of one submission anew; for processes that are started for it."""
    course = find_course()
    write_feedback(course, who, unit)
    if who == student():
        note_written_points(course)

"""A learner's own points as they are now, a person's included, for `fxopt progress`. Imports no torch."""

from __future__ import annotations

from autograder.classroom.feedback import note_written_points
from autograder.classroom.standing import Standing, read_class
from autograder.course.course import Course, student
from autograder.course.tasks import task_titles
from autograder.records.trouble import explained
from fxopt_workbench.tables import Table


def points_tables(course: Course) -> list[Table]:
    """The points of this machine's student, by assignment; nothing where nothing was ever graded here.

    Raises:
        RulesError: there are mistakes in `course.toml`.
        RecordsError: the gradebook cannot be read.
    """
    if course.database.startswith("sqlite") and not (course.records / "gradebook.db").exists():
        return []
    with explained(course.database, course.records):
        standings = read_class(course, student()).standings(student())
        note_written_points(course)
    found = [standing for standing in standings if standing.state != "not submitted"]
    if not found:
        return []
    headings = ("assignment", "judged", "written", "late", "score", "state")
    notes = [
        f"{standing.assignment}, attempt {attempt.number}: {why.message}"
        for standing in found
        for attempt, why in standing.refused
    ]
    rows = [_row(standing) for standing in found]
    return [Table("Your points", headings, rows, tuple(notes), words=("assignment", "state"))]


def earlier_attempt_counts(course: Course, assignment: str, notebook: str) -> str:
    """For this machine's student: which attempt counts, where an earlier one was better than the newest; else `""`.

    Raises:
        RulesError: there are mistakes in `course.toml`.
        RecordsError: the gradebook cannot be read.
    """
    with explained(course.database, course.records):
        known = read_class(course, student())
    if known.rules.for_student(student(), assignment).counts != "best":
        return ""
    standing = next(found for found in known.standings(student(), assignment) if found.notebook == notebook)
    counted = standing.counted
    if counted is None or counted.attempt.number == standing.attempts:
        return ""
    return (
        f"Your attempt {counted.attempt.number} was better, with {counted.score:g} points, and that one counts: "
        "handing in again never lowers your grade."
    )


def _row(standing: Standing) -> tuple[str, ...]:
    counted = standing.counted
    judged = "–" if counted is None else f"{counted.judged:g}/{standing.judged_max:g}"
    written = "–"
    if standing.written_max:
        written = "waits" if standing.written is None else f"{standing.written:g}/{standing.written_max:g}"
    late = "–" if counted is None or not counted.penalty else f"−{counted.penalty:g}"
    state: str = standing.state
    if counted is not None and standing.attempts > 1:
        state += f"; attempt {counted.attempt.number} of {standing.attempts} counts"
    if standing.by_hand:
        titles = task_titles()
        state += f"; a person's points for {', '.join(titles.get(name, name) for name in standing.by_hand)}"
    score = "–" if standing.score is None else f"{standing.score:g}"
    return standing.assignment, judged, written, late, score, state

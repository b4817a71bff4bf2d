"""Points for other systems: as a table (CSV), for Canvas, for Moodle, and as JSON.

A point that is no number stays none: what was not submitted, not graded yet or lost to an error of the infrastructure
is an empty cell (in Moodle's files a dash), never 0, and its state stands in a column of its own where the format has
room for one. Names are learners' text, which a spreadsheet would run as a formula if it began with `=`, `+`, `-`, `@`,
a tab or a line end: such a cell begins with an apostrophe (OWASP, "CSV Injection"). Imports no torch.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from typing import Any

from autograder.classroom.standing import ClassRecords, Person, Standing

FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Signs that make a spreadsheet take a cell for a formula, in ASCII and in full width."""


class NoGrade:
    """Moodle's sign for no grade; no text of anybody's can be taken for it."""


NO_GRADE = NoGrade()


def cell(value: object) -> str:
    """Text for a cell of a CSV file that no spreadsheet takes for a formula; numbers are left alone."""
    if value is None:
        return ""
    if isinstance(value, NoGrade):
        return "-"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, int):
        return str(value)
    text = str(value).replace("\0", "")
    # Spreadsheets pass over what cannot be seen before the sign, and take tabs and line ends for signs themselves.
    first = next((sign for sign in text if sign.isprintable() and not sign.isspace()), "")
    return f"'{text}" if first in FORMULA or text.startswith(("\t", "\r", "\n")) else text


def number(value: float) -> str:
    """Points with at most two decimals, such as `12.5`."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _written(rows: Iterable[Sequence[object]]) -> str:
    buffer = StringIO()
    csv.writer(buffer, lineterminator="\r\n").writerows([cell(value) for value in row] for row in rows)
    return buffer.getvalue()


TABLE_COLUMNS = (
    "student",
    "last_name",
    "first_name",
    "email",
    "assignment",
    "notebook",
    "state",
    "score",
    "max_score",
    "judged",
    "judged_max",
    "written",
    "written_max",
    "extra",
    "late_penalty",
    "days_late",
    "submitted_at",
    "attempt",
    "attempts",
)


def as_csv(records: ClassRecords, standings: Sequence[Standing]) -> str:
    """One row for each student and notebook, with the state and all that the score is made of.

    `score` is there only in the state `graded`; `judged` also while a written answer waits for a person. RFC 4180.
    """
    rows: list[Sequence[object]] = [TABLE_COLUMNS]
    for standing in standings:
        person = records.people[standing.student]
        values = _values(standing)
        values |= {"last_name": person.last_name, "first_name": person.first_name, "email": person.email}
        rows.append([values[column] for column in TABLE_COLUMNS])
    return _written(rows)


def _values(standing: Standing) -> dict[str, Any]:
    counted = standing.counted if standing.state in ("graded", "waits for a person") else None
    return {
        "student": standing.student,
        "assignment": standing.assignment,
        "notebook": standing.notebook,
        "state": standing.state,
        "score": _rounded(standing.score),
        "max_score": standing.judged_max + standing.written_max,
        "judged": _rounded(None if counted is None else counted.judged),
        "judged_max": standing.judged_max,
        "written": _rounded(standing.written) if counted is not None and standing.state == "graded" else None,
        "written_max": standing.written_max,
        "extra": _rounded(standing.extra) if counted is not None else None,
        "late_penalty": _rounded(counted.penalty) if counted is not None and standing.state == "graded" else None,
        "days_late": None if counted is None else counted.lateness.days,
        "submitted_at": None if counted is None else counted.attempt.received_at.isoformat(timespec="seconds"),
        "attempt": None if counted is None else counted.attempt.number,
        "attempts": standing.attempts,
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def as_json(records: ClassRecords, standings: Sequence[Standing]) -> str:
    """Everything of `as_csv` under `rows`, with `null` for what is no number, and the points of each task."""
    rows = []
    for standing in standings:
        person = records.people[standing.student]
        counted = standing.counted
        verdict = None if counted is None else counted.attempt.verdict
        tasks = [] if verdict is None else verdict.tasks
        shown = standing.state in ("graded", "waits for a person")
        rows.append(
            _values(standing)
            | {"last_name": person.last_name, "first_name": person.first_name, "email": person.email}
            | {
                "tasks": [
                    {
                        "task": task.task,
                        "status": task.status,
                        "points": task.points,
                        "max_points": task.max_points,
                        "misconception": task.misconception,
                    }
                    for task in (tasks if shown else ())
                ],
                "points_by_hand": list(standing.by_hand),
                "not_graded": [
                    {"attempt": attempt.number, "reason": why.reason, "message": why.message}
                    for attempt, why in standing.refused
                ],
            }
        )
    return json.dumps({"format": "fxopt grades 1", "rows": rows}, indent=1, ensure_ascii=False) + "\n"


def _columns(records: ClassRecords, standings: Sequence[Standing]) -> list[tuple[str, str, str, bool, float]]:
    """(heading, assignment, notebook, whether of written answers, most points) of the columns of a wide table.

    Written answers have a column of their own: they are outside the 100 points of a unit, and both systems then have
    columns of at most 100 points, which is the most that Moodle takes.
    """
    wanted = {(standing.assignment, standing.notebook) for standing in standings}
    found = []
    for sheet in records.sheets:
        if (sheet.assignment, sheet.notebook) not in wanted:
            continue
        alone = sum(other.assignment == sheet.assignment for other in records.sheets) == 1
        name = sheet.assignment if alone else f"{sheet.assignment} {sheet.notebook}"
        found.append((name, sheet.assignment, sheet.notebook, False, sheet.judged_max))
        if sheet.written_max:
            found.append((f"{name} written answers", sheet.assignment, sheet.notebook, True, sheet.written_max))
    return found


def _wide(
    records: ClassRecords, standings: Sequence[Standing], about: Callable[[Person], Sequence[object]], nothing: object
) -> list[list[object]]:
    """One row for each student: what is said about them, then a cell for each of `_columns`."""
    by_key = {(each.student, each.assignment, each.notebook): each for each in standings}
    columns = _columns(records, standings)
    rows = []
    for student in dict.fromkeys(standing.student for standing in standings):
        row: list[object] = [*about(records.people[student])]
        for _, assignment, notebook, written, _ in columns:
            standing = by_key[student, assignment, notebook]
            value = standing.written_after if written else standing.judged
            row.append(nothing if value is None else round(value, 2))
        rows.append(row)
    return rows


def as_canvas(records: ClassRecords, standings: Sequence[Standing]) -> str:
    """A file for Canvas, Grades, Import.

    Canvas asks for the columns Student, ID, SIS User ID, SIS Login ID and Section in front of the assignments, knows a
    row by `Points Possible` in its first cell, and finds a student by the ID, then by SIS User ID or SIS Login ID, then
    by name. Our student keys are written as SIS Login ID (the login name), and as ID what nbgrader has as the user's
    number in the LMS. An empty cell gives no grade. A column whose heading is no assignment of the Canvas course is
    offered as a new one. Sources: Canvas Instructor Guide, "How do I import grades in the Gradebook?", and
    `lib/gradebook_importer.rb` of canvas-lms (`row_has_student_headers?`, `update_column_count`, `process_student`).
    """
    columns = _columns(records, standings)
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    possible: list[object] = ["    Points Possible", "", "", "", "", *(most for *_, most in columns)]

    def about(person: Person) -> Sequence[object]:
        # By these words Canvas would take a student for the row above.
        name = person.student if "Points Possible" in person.name else person.name
        return name, person.lms_id, "", person.student, ""

    rows = _wide(records, standings, about, None)
    return _written([[*head, *(name for name, *_ in columns)], possible, *rows])


def as_moodle(records: ClassRecords, standings: Sequence[Standing]) -> str:
    """A file for Moodle, Grades, Import, CSV file; map `username` to username and each column to its grade item.

    Moodle refuses the whole file for one grade that is no number, and takes an empty cell of a new item for a grade: a
    dash is its sign for none. More than 100 points are refused unless the site allows them. Comma separated, UTF-8.
    Sources: MoodleDocs, "Grade import", and `grade/import/csv/classes/load_data.php` of Moodle
    (`import_new_grade_item`, `update_grade_item`, `insert_grade_record`).
    """
    columns = _columns(records, standings)
    head = ["username", "Last name", "First name", "Email address"]

    def about(person: Person) -> Sequence[object]:
        return person.student, person.last_name, person.first_name, person.email

    rows = _wide(records, standings, about, NO_GRADE)
    return _written([[*head, *(name for name, *_ in columns)], *rows])


FORMATS: dict[str, Callable[[ClassRecords, Sequence[Standing]], str]] = {
    "csv": as_csv,
    "canvas": as_canvas,
    "moodle": as_moodle,
    "json": as_json,
}
"""What `fxopt export` writes, by the name of the format."""

"""The tables of the verdict store, and what is written to and read from them. Imports no torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    DateTime,
    Dialect,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    insert,
    select,
    update,
)
from sqlalchemy.engine import Connection
from sqlalchemy.types import TypeDecorator

from autograder.records.verdict_records import TaskVerdict, Verdict, in_utc


class _UtcTime(TypeDecorator[datetime]):
    """A time with zone in Python, the same time in UTC in the database, whatever the database makes of zones."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else in_utc("time", value).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.replace(tzinfo=UTC)


METADATA = MetaData()
"""Our tables; nbgrader has its own metadata, and neither touches the other's."""

ATTEMPTS = Table(
    "fxopt_attempt",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("student", String(128), nullable=False, index=True),
    Column("assignment", String(128), nullable=False, index=True),
    Column("notebook", String(128), nullable=False),
    Column("submission", String(64), nullable=False),
    Column("number", Integer, nullable=False),
    Column("received_at", _UtcTime, nullable=False),
    UniqueConstraint("student", "assignment", "notebook", "submission"),
)

FACTS = Table(
    "fxopt_fact",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("value", String, nullable=False),
)
"""What is known of the gradebook as a whole, such as the sources that it was prepared from."""

FINISHED = Table(
    "fxopt_finished",
    METADATA,
    Column("student", String(128), primary_key=True),
    Column("assignment", String(128), primary_key=True),
    Column("state", String(64), nullable=False),
)
"""The fingerprint of each submission that is graded to the end: in the gradebook, and with its feedback. It lies in the
gradebook, so that an empty or an older one never takes for graded what it does not hold."""

VERDICTS = Table(
    "fxopt_verdict",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("attempt_id", ForeignKey("fxopt_attempt.id"), nullable=False),
    Column("grader", String(64), nullable=False),
    Column("status", String(32), nullable=False),
    Column("graded_at", _UtcTime, nullable=False),
    # The order in which verdicts were written; a clock may jump.
    Column("written", Integer, nullable=False),
    Column("problems", JSON, nullable=False),
    Column("details", JSON, nullable=False),
    UniqueConstraint("attempt_id", "grader"),
)

TASK_VERDICTS = Table(
    "fxopt_task_verdict",
    METADATA,
    Column("verdict_id", ForeignKey("fxopt_verdict.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("task", String(128), nullable=False, index=True),
    Column("title", String(256), nullable=False),
    Column("status", String(32), nullable=False),
    Column("points", Float),
    Column("max_points", Float, nullable=False),
    Column("misconception", String(128), nullable=False, index=True),
    Column("messages", JSON, nullable=False),
    Column("misconceptions", JSON, nullable=False),
    Column("evidence", String(32), nullable=False),
    Column("seconds", Float, nullable=False),
)


Whose = tuple[str, str, str, str]
"""Student, assignment, notebook and submission."""


def register(connection: Connection, whose: Whose, received_at: datetime, *, as_latest: bool) -> tuple[int, int]:
    """Give a submission its place among the attempts at this notebook; the row's id, and the attempt's number.

    What was graded once came when it came first, however often it is handed in again: its time decides what lateness
    costs. What never was (it came too late, or beyond the limit of a day) came when it is handed in again: by the old
    time it would use up nothing of the day on which it is graded.
    """
    student, assignment, notebook, submission = whose
    rows = connection.execute(
        select(ATTEMPTS)
        .where(ATTEMPTS.c.student == student, ATTEMPTS.c.assignment == assignment, ATTEMPTS.c.notebook == notebook)
        .order_by(ATTEMPTS.c.number)
    ).all()
    order = [row.id for row in rows]
    own = next((row for row in rows if row.submission == submission), None)
    if own is None:
        made = connection.execute(
            insert(ATTEMPTS).values(
                student=student,
                assignment=assignment,
                notebook=notebook,
                submission=submission,
                number=0,
                received_at=received_at,
            )
        )
        assert made.inserted_primary_key is not None
        this = made.inserted_primary_key[0]
        earlier = [row for row in rows if as_latest or row.received_at <= received_at]
        order.insert(len(earlier), this)
    else:
        this = own.id
        if as_latest and order[-1] != this:
            order.remove(this)
            order.append(this)
        if as_latest and own.received_at != received_at:
            judged = connection.execute(select(VERDICTS.c.id).where(VERDICTS.c.attempt_id == this).limit(1)).first()
            if judged is None:
                connection.execute(update(ATTEMPTS).where(ATTEMPTS.c.id == this).values(received_at=received_at))
    numbers = {row.id: row.number for row in rows}
    for number, row_id in enumerate(order, 1):
        if numbers.get(row_id) != number:
            connection.execute(update(ATTEMPTS).where(ATTEMPTS.c.id == row_id).values(number=number))
    return this, order.index(this) + 1


def task_values(verdict: Verdict, verdict_id: int) -> list[dict[str, Any]]:
    """The rows of `TASK_VERDICTS` for a verdict's tasks."""
    without_points = verdict.status == "infrastructure_error"
    return [
        {
            "verdict_id": verdict_id,
            "position": position,
            "task": task.task,
            "title": task.title,
            "status": task.status,
            "points": None if without_points else task.points,
            "max_points": task.max_points,
            "misconception": task.misconception,
            "messages": list(task.messages),
            "misconceptions": list(task.misconceptions),
            "evidence": task.evidence,
            "seconds": task.seconds,
        }
        for position, task in enumerate(verdict.tasks)
    ]


def read_verdicts(connection: Connection, chosen: Sequence[ColumnElement[bool]]) -> list[tuple[int, Verdict]]:
    """(id of the attempt, verdict) of all that are chosen, in the order in which they were written."""
    joined = VERDICTS.join(ATTEMPTS)
    tasks: defaultdict[int, list[TaskVerdict]] = defaultdict(list)
    for row in connection.execute(
        select(TASK_VERDICTS)
        .select_from(TASK_VERDICTS.join(joined))
        .where(*chosen)
        .order_by(TASK_VERDICTS.c.verdict_id, TASK_VERDICTS.c.position)
    ):
        tasks[row.verdict_id].append(
            TaskVerdict(
                row.task,
                row.title,
                row.status,
                row.points,
                row.max_points,
                tuple(row.messages),
                tuple(row.misconceptions),
                row.evidence,
                row.seconds,
            )
        )
    found = connection.execute(
        select(ATTEMPTS, VERDICTS.c.id.label("verdict_id"), VERDICTS)
        .select_from(joined)
        .where(*chosen)
        .order_by(VERDICTS.c.written)
    )
    return [
        (
            row.attempt_id,
            Verdict(
                row.student,
                row.assignment,
                row.notebook,
                row.submission,
                row.grader,
                row.status,
                row.received_at,
                row.graded_at,
                tuple(tasks[row.verdict_id]),
                tuple(row.problems),
                row.details,
                row.number,
            ),
        )
        for row in found
    ]

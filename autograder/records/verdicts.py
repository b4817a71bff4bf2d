"""What grading came to, for good: one record for each submission and each version of the grader.

The records lie in tables of our own beside nbgrader's, in the same database (SQLite or PostgreSQL), so that they are
lost or restored together. nbgrader keeps one row of points for each student and assignment; here every attempt stays,
with the reason for each of its points. Imports no torch.

Writing, which only grading does:

    store.receive("ada", "day1_compile_stack", "ex_01_stack", digest, handed_in_at)  # as soon as it is seen
    store.record(verdict)                                                           # as soon as it is judged

Reading, which is safe at any time, also while a grader writes:

    store.latest()               # the verdict that counts, one for each student, assignment and notebook
    store.attempts("ada")        # all that was handed in, with its verdict, or None while there is none
    store.task_rows()            # one row for each task of the verdicts that count, for statistics

Three things are distinct here and must stay so wherever points are shown: *not submitted* (no attempt), *not graded
yet* (an attempt without a verdict, or with an `infrastructure_error`, whose points are `None`), and 0 points.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from types import TracebackType
from typing import Self

from nbgrader.api import Assignment, SubmittedAssignment
from sqlalchemy import ColumnElement, delete, func, insert, select
from sqlalchemy.engine import Engine

from autograder.records.database import connect, prepare_tables, writing
from autograder.records.verdict_records import (
    Attempt,
    TaskRow,
    TaskVerdict,
    Verdict,
    VerdictStatus,
    in_utc,
    task_verdict,
)
from autograder.records.verdict_tables import (
    ATTEMPTS,
    FACTS,
    FINISHED,
    METADATA,
    TASK_VERDICTS,
    VERDICTS,
    read_verdicts,
    register,
    task_values,
)


class VerdictStore:
    """The verdicts of a course. Use it as a context manager, or call `close`.

    Every method that writes is one transaction: after a kill at any moment it has happened, or it has not.
    """

    def __init__(self, url: str) -> None:
        """Open the store in the gradebook's database, and make its tables where they are missing.

        Args:
            url: the database's URL, such as `Course.database`: `sqlite:////folder/gradebook.db`, or
                `postgresql+psycopg://user@host/name`.

        Raises:
            DatabaseError: the database cannot be used; the message says why, and what to do.
        """
        self._engine: Engine = connect(url)
        prepare_tables(self._engine, METADATA, check=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections to the database."""
        self._engine.dispose()

    # Writing

    def receive(self, student: str, assignment: str, notebook: str, submission: str, received_at: datetime) -> int:
        """Note what was handed in last, before it is graded; the number of this attempt.

        What has the same bytes as the latest attempt is that attempt, whenever it was handed in again. What has the
        bytes of an earlier one becomes the latest. An attempt that has a verdict keeps its time: handing it in again
        costs nothing.
        """
        with writing(self._engine) as connection:
            whose = student, assignment, notebook, submission
            return register(connection, whose, in_utc("received_at", received_at), as_latest=True)[1]

    def record(self, verdict: Verdict) -> None:
        """Write one verdict; written again, it is still one record.

        A verdict with the same key is replaced, but a real one never by an `infrastructure_error`. A submission that
        was not noted by `receive` takes its place among the attempts by the time at which it was handed in, so that a
        late verdict on an older one supersedes nothing.
        """
        with writing(self._engine) as connection:
            attempt, _ = register(connection, verdict.key[:4], verdict.received_at, as_latest=False)
            known = connection.execute(
                select(VERDICTS.c.id, VERDICTS.c.status).where(
                    VERDICTS.c.attempt_id == attempt, VERDICTS.c.grader == verdict.grader
                )
            ).one_or_none()
            if known is not None:
                if verdict.status == "infrastructure_error" != known.status:
                    return
                connection.execute(delete(TASK_VERDICTS).where(TASK_VERDICTS.c.verdict_id == known.id))
                connection.execute(delete(VERDICTS).where(VERDICTS.c.id == known.id))
            latest = connection.execute(select(func.max(VERDICTS.c.written))).scalar() or 0
            made = connection.execute(
                insert(VERDICTS).values(
                    attempt_id=attempt,
                    grader=verdict.grader,
                    status=verdict.status,
                    graded_at=verdict.graded_at,
                    written=latest + 1,
                    problems=list(verdict.problems),
                    details=verdict.details,
                )
            )
            assert made.inserted_primary_key is not None
            rows = task_values(verdict, made.inserted_primary_key[0])
            if rows:
                connection.execute(insert(TASK_VERDICTS), rows)

    def set_fact(self, name: str, value: str) -> None:
        """Keep one thing that is known of the gradebook as a whole."""
        with writing(self._engine) as connection:
            connection.execute(delete(FACTS).where(FACTS.c.name == name))
            connection.execute(insert(FACTS).values(name=name, value=value))

    def finish(self, student: str, assignment: str, state: str) -> None:
        """Note that a submission with this fingerprint is graded to the end, its feedback included."""
        whose = FINISHED.c.student == student, FINISHED.c.assignment == assignment
        with writing(self._engine) as connection:
            connection.execute(delete(FINISHED).where(*whose))
            connection.execute(insert(FINISHED).values(student=student, assignment=assignment, state=state))

    # Reading

    def fact(self, name: str) -> str | None:
        """What `set_fact` kept last, or `None`."""
        with self._engine.connect() as connection:
            return connection.execute(select(FACTS.c.value).where(FACTS.c.name == name)).scalar()

    def finished(self) -> dict[tuple[str, str], str]:
        """The fingerprint that was graded to the end last, by student and assignment; nbgrader must know both, too."""
        known = (
            select(SubmittedAssignment.id)
            .join(Assignment)
            .where(SubmittedAssignment.student_id == FINISHED.c.student, Assignment.name == FINISHED.c.assignment)
        )
        with self._engine.connect() as connection:
            rows = connection.execute(select(FINISHED).where(known.exists()))
            return {(row.student, row.assignment): row.state for row in rows}

    def is_new(self) -> bool:
        """Whether nbgrader knows no assignment yet, as in a gradebook that was just made."""
        with self._engine.connect() as connection:
            return connection.execute(select(Assignment.id).limit(1)).first() is None

    def attempts(self, student: str | None = None, assignment: str | None = None) -> list[Attempt]:
        """All that was handed in, by student, assignment, notebook and number, each with the verdict that counts.

        Of several verdicts on one attempt (by several versions of the grader) the one that was written last counts, and
        an `infrastructure_error` only where there is no other.
        """
        with self._engine.connect() as connection:
            rows = connection.execute(
                select(ATTEMPTS)
                .where(*_chosen(student, assignment))
                .order_by(ATTEMPTS.c.student, ATTEMPTS.c.assignment, ATTEMPTS.c.notebook, ATTEMPTS.c.number)
            ).all()
            verdicts: defaultdict[int, list[Verdict]] = defaultdict(list)
            for attempt, verdict in read_verdicts(connection, _chosen(student, assignment)):
                verdicts[attempt].append(verdict)
        return [
            Attempt(
                row.student,
                row.assignment,
                row.notebook,
                row.submission,
                row.received_at,
                row.number,
                _counting(verdicts[row.id]),
            )
            for row in rows
        ]

    def latest(self, student: str | None = None, assignment: str | None = None) -> list[Verdict]:
        """The verdict on the newest attempt for each student, assignment and notebook, in this order.

        A newest attempt without a verdict is not among them: ask `attempts` for those. Where the newest attempt has an
        `infrastructure_error` only, that is its verdict.
        """
        newest = {(each.student, each.assignment, each.notebook): each for each in self.attempts(student, assignment)}
        return [attempt.verdict for attempt in newest.values() if attempt.verdict is not None]

    def find(self, key: tuple[str, str, str, str, str]) -> Verdict | None:
        """The verdict with this key (see `Verdict.key`), or `None`."""
        columns = (
            ATTEMPTS.c.student,
            ATTEMPTS.c.assignment,
            ATTEMPTS.c.notebook,
            ATTEMPTS.c.submission,
            VERDICTS.c.grader,
        )
        with self._engine.connect() as connection:
            found = read_verdicts(connection, [column == value for column, value in zip(columns, key, strict=True)])
        return found[0][1] if found else None

    def every(self, student: str | None = None, assignment: str | None = None) -> list[Verdict]:
        """Every verdict in the order in which they were written: several where several graders graded the same."""
        with self._engine.connect() as connection:
            return [verdict for _, verdict in read_verdicts(connection, _chosen(student, assignment))]

    def task_rows(self, assignment: str | None = None, task: str | None = None) -> list[TaskRow]:
        """Each task of each verdict that counts (see `latest`), in the same order."""
        return [
            TaskRow(verdict, item)
            for verdict in self.latest(assignment=assignment)
            for item in verdict.tasks
            if task in (None, item.task)
        ]


def _chosen(student: str | None, assignment: str | None) -> list[ColumnElement[bool]]:
    wanted = ((ATTEMPTS.c.student, student), (ATTEMPTS.c.assignment, assignment))
    return [column == value for column, value in wanted if value is not None]


def _counting(verdicts: list[Verdict]) -> Verdict | None:
    """Of the verdicts on one attempt, in the order in which they were written, the one that counts."""
    real = [verdict for verdict in verdicts if verdict.status != "infrastructure_error"]
    return next(reversed(real or verdicts), None)


__all__ = ["Attempt", "TaskRow", "TaskVerdict", "Verdict", "VerdictStatus", "VerdictStore", "task_verdict"]

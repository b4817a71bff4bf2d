"""Attempts, verdicts and a person's points for tests, without a database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from autograder.classroom.standing import ClassRecords, Person, Sheet
from autograder.course.rules import Rules
from autograder.records.manual_grades import CellGrade
from autograder.records.verdicts import Attempt, TaskVerdict, Verdict, VerdictStatus

DAY, NOTEBOOK = "day5_review", "ex_05_end_to_end_pipeline"
SHEET = Sheet(DAY, NOTEBOOK, 100.0, 20.0)
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


def attempt(
    number: int,
    points: float | None,
    hours: float = 0,
    who: str = "ada",
    status: VerdictStatus = "graded",
    verdict: bool = True,
) -> Attempt:
    """An attempt with two tasks of 60 and 40 points, handed in so many hours after `NOON`."""
    digest, when = str(number) * 64, NOON + timedelta(hours=hours)
    first = None if points is None else min(points, 60.0)
    second = None if points is None or first is None else points - first
    tasks = (
        TaskVerdict("insert_after", "Insert", "passed" if first == 60 else "wrong", first, 60.0),
        TaskVerdict("pipeline", "Pipeline", "wrong", second, 40.0, ("Too slow.",), ("slow",)),
    )
    made = Verdict(who, DAY, NOTEBOOK, digest, "1", status, when, when, tasks) if verdict else None
    return Attempt(who, DAY, NOTEBOOK, digest, when, number, made)


def by_hand(name: str, manual: float | None, waits: bool = False, written: bool = True, extra: float = 0) -> CellGrade:
    """A person's points for a question answered in words, or in place of the judge's."""
    return CellGrade("ada", DAY, NOTEBOOK, name, written, 20.0, None, manual, extra, waits)


def class_of(
    attempts: Mapping[str, Sequence[Attempt]],
    grades: Sequence[CellGrade] = (),
    rules: Rules | None = None,
    people: Sequence[Person] = (),
) -> ClassRecords:
    """A class in which these students made these attempts at one notebook."""
    known = {who: Person(who) for who in attempts} | {person.student: person for person in people}
    found: defaultdict[tuple[str, str, str], list[CellGrade]] = defaultdict(list)
    for grade in grades:
        found[grade.student, grade.assignment, grade.notebook].append(grade)
    made = {(who, DAY, NOTEBOOK): list(theirs) for who, theirs in attempts.items()}
    return ClassRecords(known, [SHEET], made, found, rules or Rules())

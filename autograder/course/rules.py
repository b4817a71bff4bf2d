"""What holds for whom: deadlines, lateness, attempts a day, and which attempt counts. Imports no torch.

An instructor writes the rules into `course.toml` (see `rules_file`); without that file there are no deadlines and no
limits, and the best attempt counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Literal

Counts = Literal["best", "last"]

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Lateness:
    """How late an attempt came.

    Attributes:
        days: days after the deadline, each one that was begun counted as a whole; 0 when it was in time.
        share: which share of the points that costs, from 0 to 1.
        accepted: whether it is still graded at all.
    """

    days: int
    share: float
    accepted: bool


@dataclass(frozen=True)
class Terms:
    """What holds for one student and one assignment.

    Attributes:
        deadline: until when it is in time, extensions included; `None` for no deadline.
        extended: by how much the deadline was moved for this student.
        late_days: for so many days after the deadline it is still graded.
        penalty_a_day: percent of the points that each of these days costs.
        attempts_a_day: how many attempts of one day are graded; `None` for all.
        counts: which attempt counts.
        timezone: where a day begins at midnight.
    """

    deadline: datetime | None = None
    extended: timedelta = timedelta()
    late_days: int = 0
    penalty_a_day: float = 0.0
    attempts_a_day: int | None = None
    counts: Counts = "best"
    timezone: tzinfo = UTC

    def lateness(self, when: datetime | None) -> Lateness:
        """How late something is that was handed in at this time; in time where there is no deadline or no time."""
        if self.deadline is None or when is None or when <= self.deadline:
            return Lateness(0, 0.0, True)
        days = math.ceil((when - self.deadline) / DAY)
        return Lateness(days, min(1.0, days * self.penalty_a_day / 100), days <= self.late_days)

    def day_of(self, when: datetime) -> date:
        """The calendar day on which something was handed in, for counting the attempts of a day."""
        return when.astimezone(self.timezone).date()

    def local(self, when: datetime) -> str:
        """A time for people, in the course's time zone and with its offset."""
        return when.astimezone(self.timezone).strftime("%a %d %b %Y %H:%M %z")


@dataclass(frozen=True)
class Extension:
    """More time for one student.

    Attributes:
        student: who.
        assignment: for which assignment (folder name); `None` for all.
        days: how many days later the deadline is, or
        until: the deadline itself.
    """

    student: str
    assignment: str | None
    days: float | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Rules:
    """The rules of a course.

    Attributes:
        terms: what holds for everybody who has no extension, by assignment (folder name).
        extensions: more time for some.
        other: what holds for assignments that are not in `terms`.
    """

    terms: Mapping[str, Terms] = field(default_factory=dict)
    extensions: tuple[Extension, ...] = ()
    other: Terms = field(default_factory=Terms)

    def for_student(self, student: str, assignment: str) -> Terms:
        """What holds for one student and one assignment (folder name).

        An extension for this assignment takes the place of one for all of them.
        """
        terms = self.terms.get(assignment, self.other)
        if terms.deadline is None:
            return terms
        theirs = [e for e in self.extensions if e.student == student and e.assignment in (None, assignment)]
        if not theirs:
            return terms
        extension = max(theirs, key=lambda found: found.assignment is not None)
        deadline = extension.until or terms.deadline + timedelta(days=extension.days or 0)
        return Terms(
            deadline,
            deadline - terms.deadline,
            terms.late_days,
            terms.penalty_a_day,
            terms.attempts_a_day,
            terms.counts,
            terms.timezone,
        )

"""Which attempts are graded: those that came in time, and not more of them a day than the rules allow.

An attempt that is not graded is kept: give an extension or raise the limit, and the next `fxopt grade` grades it.
Imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from autograder.course.rules import Terms
from autograder.course.tasks import tasks_of_notebook
from autograder.records.intake import HandedIn
from autograder.records.verdicts import Attempt


@dataclass(frozen=True)
class Refusal:
    """Why an attempt is kept but not graded.

    Attributes:
        reason: what kind.
        message: what the learner reads.
    """

    reason: Literal["too late", "beyond the limit"]
    message: str


def refusal(terms: Terms, attempts: Sequence[Attempt], submission: str, when: datetime) -> Refusal | None:
    """Why this submission is not graded; `None` when it is.

    Args:
        terms: what holds for this student and assignment.
        attempts: the attempts of this student at this notebook so far, with or without the one in question.
        submission: hash of what was handed in.
        when: the time at which it was handed in.
    """
    own = next((attempt for attempt in attempts if attempt.submission == submission), None)
    if own is not None and own.verdict is not None:
        if graded(own):
            return None  # graded once, it is graded again: it tells nothing new
        when = own.received_at  # it was taken then, and grading failed: that is not the learner's fault
    lateness = terms.lateness(when)
    if not lateness.accepted and terms.deadline is not None:
        last = "" if not terms.late_days else f" and {terms.late_days} late day{'s' * (terms.late_days > 1)}"
        return Refusal(
            "too late",
            f"Kept, but not graded: it was handed in on {terms.local(when)}, after the deadline "
            f"({terms.local(terms.deadline)}){last}.",
        )
    if terms.attempts_a_day is None:
        return None
    day = terms.day_of(when)
    same_day = [
        attempt
        for attempt in attempts
        if attempt.submission != submission and graded(attempt) and terms.day_of(attempt.received_at) == day
    ]
    if len(same_day) < terms.attempts_a_day:
        return None
    attempts_in_words = f"{terms.attempts_a_day} attempt{'s' * (terms.attempts_a_day > 1)}"
    return Refusal(
        "beyond the limit",
        f"Kept, but not graded: {attempts_in_words} a day are graded, and {len(same_day)} of {day:%d %B} "
        f"{'were' if len(same_day) > 1 else 'was'}. Hand in again on another day; your earlier points stay.",
    )


def reason_to_keep(terms: Terms, submission: HandedIn, attempts: Sequence[Attempt]) -> str:
    """Why a submission is kept and not graded, as the learner reads it, or `""`.

    Args:
        terms: what holds for this student and assignment.
        submission: what was handed in.
        attempts: the attempts of this student at this assignment so far.
    """
    for name in submission.contents:
        if tasks_of_notebook(name):
            known = [attempt for attempt in attempts if attempt.notebook == name]
            why = refusal(terms, known, submission.digest(name), submission.received_at)
            if why is not None:
                return why.message
    return ""


def graded(attempt: Attempt) -> bool:
    """Whether an attempt has a verdict of its own, and not only an error of the infrastructure."""
    return attempt.verdict is not None and attempt.verdict.status != "infrastructure_error"

"""For judges whose cases ask many small questions: one answer, and the mistakes that would have given just that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from autograder.exchange.verdict import Agreement, Deviation


def compared(
    question: str, found: Any, wanted: Any, mistakes: Mapping[str, Iterable[Any]], asked: str, size: int = 0
) -> Deviation | Agreement:
    """What one answer says about the mistakes that might be behind it.

    Args:
        question: name of the misconception that only says what is not right.
        found: the learner's answer.
        wanted: the right one.
        mistakes: for each misconception the answers that it would give, one for each way to make the mistake.
        asked: what was asked, in words.
        size: how large it is; the smallest question that was answered wrongly is the one that is told.
    """
    if found == wanted and type(found) is type(wanted):
        return Agreement(question, tuple(name for name, answers in mistakes.items() if wanted not in list(answers)))
    fits = tuple(name for name, answers in mistakes.items() if found in list(answers))
    return Deviation(question, fits, f"{asked}: expected {wanted}, found {found}", size)

"""For judges that explain wrong answers: what each mistake would have given, found out only when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from autograder.exchange.verdict import Agreement, Deviation

Given = TypeVar("Given")


class OnDemand(Mapping[str, Given]):
    """What each mistake gives in one case: found out for the first who asks, and known from then on.

    Args:
        names: the mistakes.
        find: finds out what one of them gives.
    """

    def __init__(self, names: Iterable[str], find: Callable[[str], Given]) -> None:
        self._names = tuple(names)
        self._find = find
        self._known: dict[str, Given] = {}

    def __getitem__(self, name: str) -> Given:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


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

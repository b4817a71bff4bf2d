"""Named conditions under which a rewrite is legal, each of which can be switched off to prove that it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, ParamSpec

P = ParamSpec("P")


class Check(Generic[P]):
    """One condition. Called, it answers with the reason for a refusal, or `None` where the rewrite is legal."""

    def __init__(self, name: str, function: Callable[P, str | None]) -> None:
        self.name = name
        self.function = function
        self.enabled = True
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> str | None:
        """The reason why the rewrite is refused, or `None`."""
        return self.function(*args, **kwargs) if self.enabled else None


LEGALITY: dict[str, Check[Any]] = {}
"""Every condition by its name."""


def legality(name: str) -> Callable[[Callable[P, str | None]], Check[P]]:
    """Register a function as a condition.

    Raises:
        ValueError: another condition has this name.
    """

    def register(function: Callable[P, str | None]) -> Check[P]:
        if name in LEGALITY:
            raise ValueError(f"there are two legality checks named {name!r}; expected one of each name.")
        LEGALITY[name] = check = Check(name, function)
        return check

    return register


@contextmanager
def disabled(name: str) -> Iterator[None]:
    """Switch one condition off for the duration of a `with` block: for tests that something then goes wrong.

    Raises:
        KeyError: there is no such condition.
    """
    check = LEGALITY[name]
    check.enabled = False
    try:
        yield
    finally:
        check.enabled = True

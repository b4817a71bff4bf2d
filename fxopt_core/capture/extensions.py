"""What other packages add to `capture`, through the entry-point group `fxopt.capture_strategies`.

An entry point loads an `Extension`. In a package's `pyproject.toml`:

    [project.entry-points."fxopt.capture_strategies"]
    mine = "my_package.capturing:EXTENSION"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from fxopt_core.capture.dimensions import Dynamic
from fxopt_core.verification.isolation import Model
from fxopt_core.verification.state import same_state

if TYPE_CHECKING:
    from fxopt_core.capture.auto import Search
    from fxopt_core.capture.result import Captured

GROUP = "fxopt.capture_strategies"
"""The entry-point group."""

Strategy = Callable[[Model, tuple[Any, ...], dict[str, Any], Dynamic], "Captured"]
"""Captures a model from example arguments. All that it is given are copies, which it may change."""

Objection = Callable[["Captured"], str]
"""Why a capture will not do; empty where it will."""


@dataclass(frozen=True)
class Method:
    """A way of capture that users choose by its name.

    Attributes:
        capture: captures a model.
        advice: what a user may try where it fails.
        takes_sizes: whether it takes `dynamic`.
        compared: whether Python ran once and was left behind, so that the graph is compared with the model on other
            values, where what was baked in shows.
    """

    capture: Strategy
    advice: str
    takes_sizes: bool = True
    compared: bool = False


@dataclass(frozen=True)
class Adapted:
    """A model to capture in place of the caller's.

    Attributes:
        model: a copy, or the caller's own where nothing was adapted; not to be changed.
        adaptations: what was done, in words.
        without: entries of the caller's result that this one's lacks.
    """

    model: Model
    adaptations: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Extension:
    """What a package adds.

    Attributes:
        methods: by name.
        ways: the ways that `auto` goes in place of the core's own (`fxopt_core.capture.auto.own_ways`). It gives every
            capture that `Search.attempt` lets through, the most faithful first, and is asked for the next one only
            where the last is specialised to the example. Of several packages, the first that has ways decides.
        explain: the capture with more about itself that people want to read: the symbols, and guards and graph breaks
            in other words than torch's. Nothing that it says may change what a call of the capture does.
    """

    methods: Mapping[str, Method] = field(default_factory=dict)
    ways: Callable[[Search], Iterator[Captured]] | None = None
    explain: Callable[[Captured], Captured] = lambda captured: captured


@cache
def extensions() -> tuple[Extension, ...]:
    """What the installed packages add, in the order of the entry points' names.

    Raises:
        TypeError: an entry point loads something else.
    """
    found = []
    # A distribution that is on the path twice is listed twice.
    points = {(point.name, point.value): point for point in entry_points(group=GROUP)}
    for _, entry_point in sorted(points.items()):
        with same_state():  # rich, for one, draws random numbers when it is imported
            loaded = entry_point.load()
        if not isinstance(loaded, Extension):
            raise TypeError(
                f"the entry point {entry_point.name!r} of {GROUP} loads {loaded!r}; expected an Extension of "
                "fxopt_core.capture.extensions."
            )
        found.append(loaded)
    return tuple(found)

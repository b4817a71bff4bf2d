"""The learner's side: scripted engines with one clock, on a machine that is not quiet; the cases and the probe."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from autograder.exchange.evidence import Case, Evidence

EAGER = "eager"
"""The engine that the others are compared with."""

Values = list[float]

KINDS = ("right", "remembers", "rounds", "refuses", "overwrites")
"""What an engine may be: right; with the first result for every input of that length; with three digits; with an error
for inputs of another length than the first; with one list for all results."""


class ScriptedEngines:
    """Engines that compute the squares of a list of numbers, and a clock that shows what the script says.

    An engine's first call compiles, and takes longer by its `first` seconds. Somebody else uses the machine, too: what
    a call takes is multiplied by `weather`, entry by entry, call after call, whichever engine is called.

    Attributes:
        events: what happened, in order: `clock`, or the name of the engine that was called.
    """

    def __init__(self, script: dict[str, dict[str, Any]], weather: list[float]) -> None:
        """Prepare the machine.

        Args:
            script: for each engine its `kind` (see `KINDS`), `first` and `seconds` of a call.
            weather: factors.
        """
        self._script, self._weather = script, weather
        self._now, self._calls = 0.0, 0
        self._compiled: set[str] = set()
        self._first: dict[str, Values] = {}
        self._kept: dict[str, Values] = {}
        self.events: list[str] = []

    def engines(self) -> dict[str, Callable[[Values], Values]]:
        """The engines by name, `eager` first."""
        return {name: partial(self.call, name) for name in self._script}

    def clock(self) -> float:
        """The time in seconds."""
        self.events.append("clock")
        return self._now

    def play(self, name: str) -> None:
        """Let the time of one call of an engine pass."""
        self.events.append(name)
        row = self._script[name]
        factor = self._weather[self._calls % len(self._weather)]
        self._calls += 1
        self._now += factor * (row["seconds"] + (0 if name in self._compiled else row["first"]))
        self._compiled.add(name)

    def call(self, name: str, values: Values) -> Values:
        """One call of an engine."""
        self.play(name)
        row = self._script[name]
        first = self._first.setdefault(name, [value * value for value in values])
        if row["kind"] == "remembers" and len(first) == len(values):
            return list(first)
        if row["kind"] == "refuses" and len(first) != len(values):
            raise ValueError(f"compiled for {len(first)} numbers")
        result = [value * value for value in values]
        if row["kind"] == "rounds":
            result = [float(f"{value:.3g}") for value in result]
        if row["kind"] == "overwrites":
            kept = self._kept.setdefault(name, result)
            kept[:] = result
            return kept
        return result


def visible_cases() -> list[Case]:
    """Five engines on a machine that gets busy and quiet again; and two of which none is worth it."""
    return [
        Case(
            "five engines",
            {
                "script": {
                    EAGER: {"kind": "right", "first": 0.1, "seconds": 0.4},
                    "compiled": {"kind": "right", "first": 9.0, "seconds": 0.3},
                    "converted": {"kind": "right", "first": 5.0, "seconds": 0.2},
                    "cached": {"kind": "remembers", "first": 1.0, "seconds": 0.01},
                    "fixed": {"kind": "refuses", "first": 2.0, "seconds": 0.1},
                },
                "weather": [1.0, 1.0, 1.5, 3.0, 3.0, 2.5, 4.0, 1.5, 1.0, 1.0, 1.0],
                "rounds": 8,
                "example": [1.25, -2.0, 3.125],
                "others": [[0.5, 0.25, -4.0], [1.0, 2.0]],
            },
        ),
        Case(
            "no gain beyond the spread",
            {
                "script": {
                    EAGER: {"kind": "right", "first": 0.1, "seconds": 0.2},
                    "steady": {"kind": "right", "first": 1.0, "seconds": 0.22},
                    "rounded": {"kind": "rounds", "first": 1.0, "seconds": 0.1},
                },
                "weather": [1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0],
                "rounds": 6,
                "example": [1.0, 2.0],
                "others": [[1.23456, 2.0], [3.0, 4.0, 5.0]],
            },
        ),
    ]


def probe(case: Case, choose_engine: Any) -> Evidence:
    """Let the learner choose among scripted engines."""
    given = case.parameters
    machine = ScriptedEngines(given["script"], given["weather"])
    others = [list(values) for values in given["others"]]
    found = choose_engine(machine.engines(), list(given["example"]), others, machine.clock, given["rounds"])
    found = found if isinstance(found, dict) else {}
    taken, refused, speed_up = (found.get(name) for name in ("taken", "refused", "speed_up"))
    return Evidence(
        {
            "taken": taken if isinstance(taken, str) else None,
            "refused": sorted(map(str, refused)) if isinstance(refused, (list, tuple, set)) else None,
            "speed_up": {str(name): _number(value) for name, value in speed_up.items()}
            if isinstance(speed_up, dict)
            else None,
            "events": machine.events[:5000],
        }
    )


def _number(value: Any) -> float | None:
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else None


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What the learner's code called, in order, and what it decided."""
    values = evidence.values
    lines = [f"{case.name}: the first steps of your code, in order", "  " + " ".join(values["events"][:30])]
    lines.append(f"  taken: {values['taken']}; refused: {', '.join(values['refused'] or []) or 'none'}")
    speed_up = values["speed_up"] or {}
    lines += [f"  {name:12} {value:.2f} times as fast" for name, value in speed_up.items() if value is not None]
    return ["\n".join(lines)]

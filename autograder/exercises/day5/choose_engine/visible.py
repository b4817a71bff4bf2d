"""The learner's side: scripted engines with one clock, on a machine that is not quiet; cases, probe and display."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.outside import Ask, held

EAGER = "eager"
"""The engine that the others are compared with."""

Values = list[float]

MOST_NUMBERS, LARGEST = 1000, 1e100
"""How many numbers an engine takes at once, and how large they may be: their squares are numbers, too."""

KINDS = (
    *("right", "near", "caches", "remembers", "rounds", "half more", "above", "earlier", "later", "below"),
    *(
        "one value",
        "not a number",
        "endless",
        "longer",
        "shorter",
        "turned",
        "refuses",
        "fails",
        "stops",
        "overwrites",
        "alternates",
    ),
)
"""What an engine may be: right; off by 5e-5 of the largest value, up and down; right, with the list that it returned
for an equal input; with the first result for every input of that length; with three digits; off by 1.5e-4 of the
largest value, up and down; too large by a thousandth of it, for every input, for the first or for all others; too
small by as much; with one value in the middle that is too large; with a NaN or infinity at the end; with a value too
many or too few; with the values the other way round; with a ValueError for inputs of another length than the first;
with a RuntimeError or a ZeroDivisionError for all; with one list for all results; with two lists in turn."""

RIGHT = ("right", "near", "caches")
"""The kinds that are within the tolerance on every input."""


class ScriptedEngines:
    """Engines that compute the squares of a list of numbers, and a clock that shows what the script says.

    An engine's first call compiles, and takes longer by its `first` seconds. Somebody else uses the machine, too: what
    a call takes is multiplied by `weather`, entry by entry, call after call, whichever engine is called.

    Attributes:
        record: what happened, in order: `clock`, or the name of the engine that was called.
    """

    def __init__(self, script: dict[str, dict[str, Any]], weather: list[float]) -> None:
        """Prepare the machine.

        Args:
            script: for each engine its `kind` (see `KINDS`), `first` and `seconds` of a call; a list of seconds is
                gone through again and again, call after call of this engine.
            weather: factors.
        """
        self._script, self._weather = script, weather
        self._now, self._calls = 0.0, 0
        self._called = dict.fromkeys(script, 0)
        self._first: dict[str, Values] = {}
        self._kept: dict[tuple[str, int], Values] = {}
        self._cached: dict[tuple[str, tuple[float, ...]], Values] = {}
        self._lists: list[Values] = []
        self.record: list[str] = []

    def engines(self) -> dict[str, Callable[[Values], Values]]:
        """The engines by name, `eager` first."""
        return {name: partial(self.call, name) for name in self._script}

    def answer(self, question: Any) -> Any:
        """Do one thing from outside: tell the time (`clock`), or call an engine (its name, and a list of numbers).

        The answer to a call is `result` with the number of the list that it is: an engine that hands out one list for
        all calls says the same number each time. Or it is the text of an `error` and its `kind`.
        """
        if question == "clock":
            return self.clock()
        try:
            name, values = question
            _check(values)
        except (TypeError, ValueError):
            raise ValueError("engines are called by name, with a list of numbers; or the time is asked for") from None
        if name not in self._script:
            raise ValueError("there is no such engine")
        try:
            result = self.call(name, values)
        except (ValueError, RuntimeError, ZeroDivisionError) as error:
            return {"error": str(error), "kind": type(error).__name__}
        if all(kept is not result for kept in self._lists):
            self._lists.append(result)
        number = next(place for place, kept in enumerate(self._lists) if kept is result)
        return {"result": result, "list": number}

    def clock(self) -> float:
        """The time in seconds."""
        self.record.append("clock")
        return self._now

    def play(self, name: str) -> None:
        """Let the time of one call of an engine pass."""
        self.record.append(name)
        row = self._script[name]
        factor = self._weather[self._calls % len(self._weather)]
        self._calls += 1
        called, seconds = self._called[name], row["seconds"]
        self._called[name] += 1
        span = seconds[called % len(seconds)] if isinstance(seconds, list) else seconds
        self._now += factor * (span + (0 if called else row["first"]))

    def call(self, name: str, values: Values) -> Values:
        """One call of an engine."""
        self.play(name)
        row = self._script[name]
        first = self._first.setdefault(name, [value * value for value in values])
        if row["kind"] == "remembers" and len(first) == len(values):
            return list(first)
        if row["kind"] == "refuses" and len(first) != len(values):
            raise ValueError(f"compiled for {len(first)} numbers")
        if row["kind"] == "fails":
            raise RuntimeError("out of memory")
        if row["kind"] == "stops":
            raise ZeroDivisionError("no threads to share the work")
        right = [value * value for value in values]
        # Two kinds are right for some inputs: all but the first, or the first.
        spared = {"earlier": right != first, "later": right == first}.get(row["kind"], False)
        result = right if spared else _flawed(row["kind"], right)
        if row["kind"] in ("overwrites", "alternates"):
            turn = self._called[name] % 2 if row["kind"] == "alternates" else 0
            kept = self._kept.setdefault((name, turn), result)
            kept[:] = result
            return kept
        if row["kind"] == "caches":
            return self._cached.setdefault((name, tuple(values)), result)
        return result


def _flawed(kind: str, right: Values) -> Values:
    """What an engine of a kind gives in the place of the right values."""
    largest = max(right, default=0.0)
    match kind:
        case "rounds":
            return [float(f"{value:.3g}") for value in right]
        case "near":
            return [value + 5e-5 * largest * (-1) ** place for place, value in enumerate(right)]
        case "half more":
            return [value + 1.5e-4 * largest * (-1) ** place for place, value in enumerate(right)]
        case "above" | "earlier" | "later":
            return [value + 1e-3 * largest for value in right]
        case "below":
            return [value - 1e-3 * largest for value in right]
        case "one value":
            middle = len(right) // 2
            return [*right[:middle], right[middle] + 1e-3 * largest, *right[middle + 1 :]]
        case "endless":
            return [*right[:-1], math.inf]
        case "not a number":
            return [*right[:-1], math.nan]
        case "longer":
            return [*right, 0.0]
        case "shorter":
            return right[:-1]
        case "turned":
            return right[::-1]
    return right


def _check(values: Any) -> None:
    """Raises ValueError or TypeError: these are no numbers that an engine squares."""
    if len(values) > MOST_NUMBERS or not all(abs(value) <= LARGEST for value in values):
        raise ValueError(f"engines take at most {MOST_NUMBERS} numbers of at most {LARGEST:g} each")


class Engines:
    """The engines as functions of a list of numbers, and their clock, wherever they are held."""

    def __init__(self, names: list[str], ask: Ask) -> None:
        """Prepare them.

        Args:
            names: names of the engines.
            ask: asks the machine that holds them (see `ScriptedEngines.answer`).
        """
        self._ask = ask
        self._lists: dict[int, Values] = {}
        self.by_name: dict[str, Callable[[Values], Values]] = {name: partial(self._call, name) for name in names}

    def clock(self) -> float:
        """The time in seconds."""
        return float(self._ask("clock"))

    def _call(self, name: str, values: Values) -> Values:
        values = [float(value) for value in values]
        _check(values)
        answer = self._ask([name, values])
        if "error" in answer:
            kinds = {"RuntimeError": RuntimeError, "ZeroDivisionError": ZeroDivisionError}
            raise kinds.get(answer["kind"], ValueError)(answer["error"])
        # An engine that overwrites its one list overwrites it here, too.
        result = self._lists.setdefault(answer["list"], [])
        result[:] = answer["result"]
        return result


def instrument(case: Case) -> ScriptedEngines:
    """The machine of a case, as new."""
    return ScriptedEngines(case.kept["script"], case.kept["weather"])


def engines_case(
    name: str, script: dict[str, dict[str, Any]], weather: list[float], rounds: int, inputs: list[Values]
) -> Case:
    """A case of which the judge keeps the script: how right and how fast an engine is must be found out.

    Args:
        name: name of the case.
        script, weather: see `ScriptedEngines`.
        rounds: how often each engine is to be timed.
        inputs: the example, then the others.
    """
    example, *others = inputs
    given = {"names": list(script), "rounds": rounds, "example": example, "others": others}
    return Case(name, given, kept={"script": script, "weather": weather})


def visible_cases() -> list[Case]:
    """Five engines on a machine that gets busy and quiet again; and two of which none is worth it."""
    return [
        engines_case(
            "five engines",
            {
                EAGER: {"kind": "right", "first": 0.1, "seconds": 0.4},
                "compiled": {"kind": "right", "first": 9.0, "seconds": 0.3},
                "converted": {"kind": "right", "first": 5.0, "seconds": 0.2},
                "cached": {"kind": "remembers", "first": 1.0, "seconds": 0.01},
                "fixed": {"kind": "refuses", "first": 2.0, "seconds": 0.1},
            },
            [1.0, 1.0, 1.5, 3.0, 3.0, 2.5, 4.0, 1.5, 1.0, 1.0, 1.0],
            8,
            [[1.25, -2.0, 3.125], [0.5, 0.25, -4.0], [1.0, 2.0]],
        ),
        engines_case(
            "no gain beyond the spread",
            {
                EAGER: {"kind": "right", "first": 0.1, "seconds": 0.2},
                "steady": {"kind": "right", "first": 1.0, "seconds": 0.22},
                "rounded": {"kind": "rounds", "first": 1.0, "seconds": 0.1},
            },
            [1.0, 1.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0],
            6,
            [[1.0, 2.0], [1.23456, 2.0], [3.0, 4.0, 5.0]],
        ),
    ]


def probe(case: Case, choose_engine: Any) -> Evidence:
    """Let the learner choose among engines that lie outside, on a machine that does."""
    given = case.parameters
    ask, seen = held(lambda: instrument(case))
    machine = Engines(given["names"], ask)
    others = [list(values) for values in given["others"]]
    found = choose_engine(machine.by_name, list(given["example"]), others, machine.clock, given["rounds"])
    found = found if isinstance(found, dict) else {}
    taken, refused, speed_up = (found.get(name) for name in ("taken", "refused", "speed_up"))
    return Evidence(
        {
            "taken": taken if isinstance(taken, str) else None,
            "refused": sorted(map(str, refused)) if isinstance(refused, (list, tuple, set)) else None,
            "speed_up": {str(name): _number(value) for name, value in speed_up.items()}
            if isinstance(speed_up, dict)
            else None,
            "seen": seen,
        }
    )


def _number(value: Any) -> float | None:
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else None


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What the learner's code called, in order, and what it decided."""
    values = evidence.values
    lines = [f"{case.name}: the first steps of your code, in order", "  " + " ".join(values["seen"][:30])]
    lines.append(f"  taken: {values['taken']}; refused: {', '.join(values['refused'] or []) or 'none'}")
    speed_up = values["speed_up"] or {}
    lines += [f"  {name:12} {value:.2f} times as fast" for name, value in speed_up.items() if value is not None]
    return ["\n".join(lines)]

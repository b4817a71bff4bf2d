"""The learner's side: a scripted machine with several functions and one clock, the cases, the probe and the display."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from textwrap import wrap
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.outside import held

LAUNCH_SECONDS = 0.001
"""How long it takes to hand a piece of work to the scripted machine."""

PLAIN = "eager"
"""The name of the function that is not compiled."""

RESULTS = ("cost_seconds", "call_seconds")


class ScriptedMachine:
    """Functions that hand work to a device and return at once, and a clock that shows what the script says.

    The first call of each function takes longer by its `first` seconds; its runs take what the script says, and those
    that are beyond the script take what the last one took.

    Attributes:
        record: what happened, in order: `clock`, `synchronize`, or the name of the function that was called.
        busy: how often the clock was read while the device was still computing.
    """

    def __init__(self, script: dict[str, dict[str, Any]], pending: float = 0.0) -> None:
        """Prepare a machine.

        Args:
            script: for each name `first`, in seconds, and `runs`, a list of durations in seconds.
            pending: seconds of work that somebody handed to the device before.
        """
        self._script = script
        self._counts = dict.fromkeys(script, 0)
        self._now, self._pending = 0.0, pending
        self.busy = 0
        self.record: list[str] = []

    def answer(self, question: str) -> float | None:
        """Do one thing; the time, where that is what was asked for."""
        if question not in ("clock", "synchronize", *self._script):
            raise ValueError("a machine calls its functions, waits, or tells the time")
        self.record.append(question)
        if question == "clock":
            return self.clock()
        if question == "synchronize":
            self.synchronize()
        else:
            self.call(question)
        return None

    def call(self, name: str) -> None:
        """One call of the function of this name."""
        runs: Sequence[float] = self._script[name]["runs"]
        count = self._counts[name]
        self._now += LAUNCH_SECONDS + (0 if count else self._script[name]["first"])
        self._pending += runs[min(count, len(runs) - 1)]
        self._counts[name] += 1

    def synchronize(self) -> None:
        """Wait until the device has done all its work."""
        self._now += self._pending
        self._pending = 0.0

    def clock(self) -> float:
        """The time in seconds."""
        self.busy += self._pending > 0
        return self._now


def visible_cases() -> list[Case]:
    """A model, compiled in two ways and measured with outliers; figures to compare; jobs to choose for."""
    job = {
        "eager": {"cost_seconds": 0.2, "call_seconds": 0.05},
        "aot_eager": {"cost_seconds": 2.0, "call_seconds": 0.04},
        "inductor": {"cost_seconds": 9.0, "call_seconds": 0.02},
    }
    return [
        Case(
            "one model, compiled in two ways",
            {
                "names": ["eager", "aot_eager", "inductor"],
                "warmup": 2,
                "repeats": 5,
                "comparisons": [[0.7, 0.3, 8.0, 0.12], [0.5, 0.1, 2.0, 0.1], [0.5, 0.1, 2.0, 0.4]],
                "jobs": [[job, 10], [job, 200], [job, 1000]],
            },
            kept={
                "eager": {"first": 0.7, "runs": [0.9, 0.8, 0.7, 0.31, 0.3, 0.32, 0.9, 0.305]},
                "aot_eager": {"first": 2.5, "runs": [0.6, 0.5, 0.5, 0.29, 0.8, 0.28, 0.285, 0.3]},
                "inductor": {"first": 8.0, "runs": [0.4, 0.3, 0.3, 0.12, 0.13, 0.11, 0.125, 0.45]},
            },
        ),
        Case(
            "compiling that never pays",
            {
                "names": ["eager", "inductor"],
                "warmup": 0,
                "repeats": 3,
                "comparisons": [[0.1, 0.21, 3.0, 0.31], [0.9, 0.3, 0.4, 0.2]],
                "jobs": [[{name: job[name] for name in ("inductor", "eager")}, 100]],
            },
            kept={
                "eager": {"first": 0.1, "runs": [0.5, 0.2, 0.21, 0.5]},
                "inductor": {"first": 3.0, "runs": [0.6, 0.3, 0.31, 0.35]},
            },
        ),
    ]


def instrument(case: Case) -> ScriptedMachine:
    """The scripted machine of a case, as new."""
    return ScriptedMachine(case.kept, case.parameters.get("pending", 0.0))


def probe(case: Case, compile_profile: Any, break_even: Any, cheapest: Any) -> Evidence:
    """Let the learner measure the scripted machine, which lies outside, compare figures, and choose for given jobs."""
    given = case.parameters
    ask, seen = held(lambda: instrument(case))
    functions = {name: partial(ask, name) for name in given["names"]}
    clock, synchronize = partial(ask, "clock"), partial(ask, "synchronize")
    found = compile_profile(functions, clock, synchronize, given["warmup"], given["repeats"])
    profile = {name: _row(found.get(name) if isinstance(found, dict) else None) for name in given["names"]}
    kept = [list(functions) == given["names"]]
    compared = []
    for plain_cost, plain_call, cost, call in given["comparisons"]:
        plain = dict(zip(RESULTS, (plain_cost, plain_call), strict=True))
        compiled = dict(zip(RESULTS, (cost, call), strict=True))
        before = [dict(plain), dict(compiled)]
        try:
            compared.append(_number(break_even(plain, compiled)))
        except ZeroDivisionError:
            compared.append("division by zero")
        except OverflowError:  # what rounding infinity raises
            compared.append("overflow")
        kept.append([plain, compiled] == before)
    chosen = []
    for rows, calls in given["jobs"]:
        job = {name: dict(row) for name, row in rows.items()}
        chosen.append(cheapest(job, calls))
        kept.append(job == rows)
    return Evidence(
        {
            "profile": profile,
            "compared": compared,
            "chosen": [name if isinstance(name, str) else None for name in chosen],
            "kept": all(kept),
            "others": sorted({*map(str, found)} - {*given["names"]}) if isinstance(found, dict) else [],
            "seen": seen,
        }
    )


def _row(row: Any) -> dict[str, float | str | None]:
    return {name: _number(row.get(name) if isinstance(row, dict) else None) for name in RESULTS}


def _number(value: Any) -> float | str | None:
    """A number in a form that JSON has; infinity and NaN as words."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) else str(float(value))


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What the learner's code did with clock and machine, in order, and what it made of it."""
    values = evidence.values
    lines = [f"{case.name}: the first steps of your code, in order"]
    lines += wrap(" ".join(values["seen"][:40]), 100, initial_indent="  ", subsequent_indent="  ")
    for name, row in values["profile"].items():
        lines.append(f"  {name:10} " + ", ".join(f"{what} {_short(value)}" for what, value in row.items()))
    for (plain_cost, plain, cost, call), found in zip(case.parameters["comparisons"], values["compared"], strict=True):
        figures = f"{plain_cost} + n * {plain} against {cost} + n * {call}"
        lines.append(f"  break_even: {figures} -> {_short(found)}")
    for (_, calls), name in zip(case.parameters["jobs"], values["chosen"], strict=True):
        lines.append(f"  cheapest for {calls} calls: {name}")
    return ["\n".join(lines)]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

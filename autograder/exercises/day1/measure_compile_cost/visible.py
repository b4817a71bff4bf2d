"""The learner's side: a scripted device with a clock of its own, the visible cases, the probe and the display."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from textwrap import wrap
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.outside import held

LAUNCH_SECONDS = 0.001
"""How long it takes to hand a piece of work to the scripted device."""

RESULTS = ("compile_seconds", "median_seconds", "spread_seconds")


class ScriptedDevice:
    """A device that computes behind Python's back, and a clock that shows what the script says.

    The first call of `function` compiles; each call then hands work to the device and returns at once. `synchronize`
    waits for the work. `record` is what happened, in order; `busy` counts readings of the clock while work was pending.
    It may have work to do already when it is handed over.
    """

    def __init__(self, compile_seconds: float, run_seconds: Sequence[float], pending_seconds: float = 0.0) -> None:
        self._compile_seconds, self._run_seconds = compile_seconds, list(run_seconds)
        self._now, self._pending = 0.0, pending_seconds
        self.calls = self.busy = 0
        self.record: list[str] = []

    def answer(self, question: str) -> float | None:
        """Do one of the three things; the time, where that is what was asked for."""
        if question not in ("call", "synchronize", "clock"):
            raise ValueError("a device is called, waited for, or asked for the time")
        self.record.append(question)
        if question == "clock":
            return self.clock()
        if question == "call":
            self.function()
        else:
            self.synchronize()
        return None

    def function(self) -> None:
        """One call of the compiled function."""
        if self.calls == 0:
            self._now += self._compile_seconds
        self._now += LAUNCH_SECONDS
        # A learner who calls more often than asked gets the last duration again.
        self._pending += self._run_seconds[min(self.calls, len(self._run_seconds) - 1)]
        self.calls += 1

    def synchronize(self) -> None:
        """Wait until the device has done all its work."""
        self._now += self._pending
        self._pending = 0.0

    def clock(self) -> float:
        """The time in seconds."""
        self.busy += self._pending > 0
        return self._now


def visible_cases() -> list[Case]:
    """A device whose first runs are slow, with an outlier; and three comparisons for the break-even."""
    return [
        Case(
            "two warm-up calls, five timed ones with an outlier",
            {"warmup": 2, "repeats": 5, "comparisons": [[8.0, 0.3, 0.1], [2.0, 0.1, 0.1], [2.0, 0.1, 0.4]]},
            kept={"compile_seconds": 8.0, "run_seconds": [0.9, 0.5, 0.4, 0.101, 0.104, 0.1, 0.35, 0.098]},
        ),
        Case(
            "no warm-up call, three timed ones",
            {"warmup": 0, "repeats": 3, "comparisons": [[3.0, 0.5, 0.2]]},
            kept={"compile_seconds": 3.0, "run_seconds": [0.5, 0.2, 0.21, 0.5]},
        ),
    ]


def instrument(case: Case) -> ScriptedDevice:
    """The scripted device of a case, as new."""
    return ScriptedDevice(case.kept["compile_seconds"], case.kept["run_seconds"], case.kept.get("pending_seconds", 0.0))


def probe(case: Case, measure: Any, break_even_calls: Any) -> Evidence:
    """Let the learner measure the scripted device, which lies outside, and compare given figures."""
    given = case.parameters
    ask, seen = held(lambda: instrument(case))
    call, clock, synchronize = (partial(ask, question) for question in ("call", "clock", "synchronize"))
    found = measure(call, clock, synchronize, given["warmup"], given["repeats"])
    results = {name: _number(found.get(name) if isinstance(found, dict) else None) for name in RESULTS}
    compared = []
    for figures in given["comparisons"]:
        try:
            compared.append(_number(break_even_calls(*figures)))
        except ZeroDivisionError:
            compared.append("division by zero")
    return Evidence({"results": results, "compared": compared, "seen": seen})


def _number(value: Any) -> float | str | None:
    """A number in a form that JSON has; infinity and NaN as words."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return None
    return float(value) if math.isfinite(value) else str(float(value))


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What the learner's code did with clock and device, in order, and what it made of it."""
    lines = [f"{case.name}: what your code did, in order"]
    lines += wrap(" ".join(evidence.values["seen"][:60]), 100, initial_indent="  ", subsequent_indent="  ")
    lines += [f"  {name}: {_short(value)}" for name, value in evidence.values["results"].items()]
    for figures, value in zip(case.parameters["comparisons"], evidence.values["compared"], strict=True):
        lines.append("  break_even_calls(" + ", ".join(map(_short, figures)) + f") = {_short(value)}")
    return ["\n".join(lines)]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

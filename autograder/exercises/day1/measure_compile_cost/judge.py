"""What honest measuring is. The judge knows the script of the device, so it knows every figure exactly."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from random import Random

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.day1.measure_compile_cost.visible import LAUNCH_SECONDS, RESULTS, instrument

MISCONCEPTIONS = {
    "results missing": (
        "`measure` must return a dictionary with the numbers `compile_seconds`, `median_seconds` and `spread_seconds`."
    ),
    "device still busy": (
        "You read the clock while the device was still computing: a call only hands work over. Call `synchronize()` "
        "before every reading, at the start of an interval as well as at its end."
    ),
    "wrong number of calls": (
        "The function must be called once to compile, `warmup` times without timing, and `repeats` times with."
    ),
    "compilation in the steady state": (
        "Your steady state contains the first call, which is the compilation. Time it apart."
    ),
    "warm-up counted": "Your steady state contains the warm-up calls: they are there to be thrown away.",
    "mean instead of median": (
        "You took the mean: one outlier moves it. The median is the middle value, which an outlier leaves alone."
    ),
    "middle of an even count": (
        "With an even number of timed calls, two values lie in the middle: the median is half-way between them."
    ),
    "not sorted": "You took the call in the middle of the loop. The median is the middle of the *sorted* durations.",
    "minimum instead of median": "You took the best run: it flatters. Report the median.",
    "standard deviation as spread": (
        "You took the standard deviation: one outlier dominates it. The interquartile range is the distance between "
        "the first and the third quartile."
    ),
    "range as spread": "You took largest minus smallest: that is the outlier again. Take the interquartile range.",
    "other quartiles": (
        "Your quartiles are those of another method. `statistics.quantiles` has `exclusive` as its default; the task "
        'asks for `method="inclusive"`.'
    ),
    "one interval for all": (
        "You timed all runs as one interval and divided: that gives a mean, and nothing about the spread. "
        "Time each run."
    ),
    "compile cost wrong": "`compile_seconds` is the duration of the first call, from handing over to finished.",
    "wrong median": "`median_seconds` is not the median of the timed calls.",
    "wrong spread": "`spread_seconds` is not the interquartile range of the timed calls (method `inclusive`).",
    "never is infinity": (
        "When the compiled function is no faster, compiling never pays: return `math.inf`, not a negative number or an "
        "error."
    ),
    "compared the wrong way round": (
        "Saved per call is eager minus compiled. You have it, or the quotient, the wrong way round."
    ),
    "rounded": "The break-even is the quotient as it is: do not round it, and add no call to it.",
    "free is no exception": (
        "A compilation that costs nothing pays at once when a call saves time (after 0 calls), and never when it saves "
        "nothing."
    ),
    "wrong break-even": "The break-even is the compile cost divided by what each call saves.",
}

UNNAMED = ("wrong median", "wrong spread", "wrong break-even", "wrong number of calls")

FREE = [
    *([0.0, 0.5, 0.2], [0.0, 0.2, 0.2], [0.0, 0.2, 0.5], [3.0, 0.25, 0.125], [1.0, 0.75, 0.25], [0.5, 2.0, 0.5]),
    *([2.0, 7e-7, 4e-7], [5.0, 1.0, 1.0 - 2**-33], [1e-7, 0.375, 0.0625]),
]
"""Compilations that cost nothing, or next to nothing; quotients that are whole numbers or less than 1; calls that save
next to nothing."""

SCRIPTS = (
    ("two timed calls", 1, [0.7, 0.3, 0.25, 0.1]),
    ("an even number of calls", 0, [0.8, 0.11, 0.4, 0.13, 0.1, 0.16, 0.12]),
    ("equal calls", 2, [0.6, 0.5, 0.4, 0.1, 0.1, 0.1, 0.1, 0.1]),
    ("slow ones first", 1, [0.9, 0.8, 0.5, 0.4, 0.2, 0.125, 0.1]),
    ("short calls", 1, [2e-3, 1e-3, 7.89e-5, 1.23e-5, 4.56e-5]),
)
"""Warm-up calls, and how long each call runs; with the compilation the first."""


def hidden_cases(random: Random) -> list[Case]:
    """Fixed scripts, then drawn ones, each with slow warm-up calls and an outlier, and other comparisons."""
    cases = [
        Case(
            f"hidden {name}",
            {"warmup": warmup, "repeats": len(seconds) - 1 - warmup, "comparisons": FREE[i:] + FREE[:i]},
            kept={"compile_seconds": random.uniform(2, 20), "run_seconds": seconds},
        )
        for i, (name, warmup, seconds) in enumerate(SCRIPTS)
    ]
    cases.append(
        Case(
            "hidden a device at work already",
            {"warmup": 1, "repeats": 3, "comparisons": FREE},
            # Nothing to compile: the first call is none of the long ones.
            kept={"compile_seconds": 0.0, "run_seconds": [0.1, 0.4, 0.1, 0.2, 0.125], "pending_seconds": 0.75},
        )
    )
    for number in range(2):
        warmup, repeats = random.randint(1, 4), random.randint(5, 9)
        steady = random.uniform(0.05, 0.3)
        timed = [steady * random.uniform(0.9, 1.1) for _ in range(repeats)]
        timed[random.randrange(repeats)] *= random.uniform(3, 6)
        slow = [steady * random.uniform(2, 5) for _ in range(warmup + 1)]
        # What is compared is drawn apart from the script, of which it would tell something.
        eager, cost = random.uniform(0.2, 1.0), random.uniform(2, 20)
        cases.append(
            Case(
                f"hidden {number}",
                {
                    "warmup": warmup,
                    "repeats": repeats,
                    "comparisons": [
                        [cost, eager, eager * random.uniform(0.3, 0.9)],
                        [cost, eager, eager * random.uniform(1.1, 3.0)],
                        [cost, eager, eager],
                    ],
                },
                kept={"compile_seconds": random.uniform(2, 20), "run_seconds": [*slow, *timed]},
            )
        )
    return cases


def interquartile_range(values: list[float]) -> float:
    """Third quartile minus first, both inclusive."""
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return third - first


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    yield from _judge_measuring(case, evidence)
    yield from _judge_break_even(case, evidence)


def _judge_measuring(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    given, values, events = case.parameters, evidence.values, evidence.values["seen"]
    warmup, repeats = given["warmup"], given["repeats"]
    results = values["results"]
    if any(not isinstance(results.get(name), float) for name in RESULTS):
        yield "results missing", ""
        return
    busy = _busy_readings(case, events)
    if busy:
        yield "device still busy", f"({busy} readings)"
        return
    spans = [case.kept["run_seconds"][i] + LAUNCH_SECONDS for i in range(1 + warmup + repeats)]
    spans[0] += case.kept["compile_seconds"]
    timed = spans[1 + warmup :]
    median, spread = results["median_seconds"], results["spread_seconds"]
    asked = f"(timed calls of {', '.join(f'{value:.4g}' for value in timed)} s"
    under = medians_under_mistakes(spans, timed, warmup, repeats, spread)
    due, calls = 1 + warmup + repeats, events.count("call")
    if calls > due:  # no mistake about the median calls more often
        yield "wrong number of calls", f"(expected {due}, found {calls})"
        return
    yield _compared("wrong median", median, statistics.median(timed), under, asked)
    if _close(median, statistics.median(timed)) and calls != due:
        yield "wrong number of calls", f"(expected {due}, found {calls})"
        return
    if not _close(results["compile_seconds"], spans[0]):
        yield "compile cost wrong", f"(expected {spans[0]:.4g} s, found {results['compile_seconds']:.4g} s)"
    if _close(median, statistics.median(timed)):
        yield _compared("wrong spread", spread, interquartile_range(timed), spreads_under_mistakes(timed), asked)


def medians_under_mistakes(
    spans: list[float], timed: list[float], warmup: int, repeats: int, spread: float
) -> dict[str, list[float]]:
    """What one would take for the median under each mistake."""
    middle = len(timed) // 2
    mean = "one interval for all" if spread == 0 else "mean instead of median"
    under = {
        mean: [statistics.fmean(timed)],
        "compilation in the steady state": [
            statistics.median(chosen) for chosen in (spans, spans[:repeats], [spans[0], *timed])
        ],
        "minimum instead of median": [min(timed)],
        "middle of an even count": [statistics.median_low(timed), statistics.median_high(timed)],
        "not sorted": timed[middle : middle + 1]
        if len(timed) % 2
        else [timed[middle], timed[middle - 1], (timed[middle] + timed[middle - 1]) / 2],
    }
    if warmup:
        under["warm-up counted"] = [statistics.median(chosen) for chosen in (spans[1:], spans[1 : 1 + repeats])]
    return under


def spreads_under_mistakes(timed: list[float]) -> dict[str, list[float]]:
    """What one would take for the spread under each mistake."""
    first, _, third = statistics.quantiles(timed, n=4)
    return {
        "standard deviation as spread": [statistics.stdev(timed), statistics.pstdev(timed)],
        "range as spread": [max(timed) - min(timed)],
        "other quartiles": [third - first],
    }


def _compared(
    question: str, found: float, wanted: float, under: dict[str, list[float]], asked: str, size: int = 0
) -> Deviation | Agreement:
    """Like `compared`, of numbers that rounding may have changed a little."""
    if _close(found, wanted):
        return Agreement(
            question, tuple(name for name, ways in under.items() if not any(_close(wanted, w) for w in ways))
        )
    fits = tuple(name for name, ways in under.items() if any(_close(found, way) for way in ways))
    return Deviation(question, fits, f"{asked}: expected {wanted:.6g}, found {found:.6g})", size)


def _busy_readings(case: Case, events: list[str]) -> int:
    """Play the events on a device of the judge's own; how often its clock is read while it is busy."""
    device = instrument(case)
    for event in events:
        device.answer(event)
    return device.busy


def _judge_break_even(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    for (cost, eager, compiled), found in zip(case.parameters["comparisons"], evidence.values["compared"], strict=True):
        wanted = break_even(cost, eager, compiled)
        asked = f"(for {cost:.4g}, {eager:.4g}, {compiled:.4g}"
        if not isinstance(found, (float, str)) or found == "division by zero":
            name = "never is infinity" if wanted == math.inf else "wrong break-even"
            yield name, f"{asked}: expected {wanted}, found {found})"
            continue
        yield _compared(
            "wrong break-even", float(found), wanted, break_evens_under_mistakes(cost, eager, compiled), asked
        )


def break_even(cost: float, eager: float, compiled: float) -> float:
    """After how many calls compiling has paid."""
    return cost / (eager - compiled) if eager > compiled else math.inf


def break_evens_under_mistakes(cost: float, eager: float, compiled: float) -> dict[str, list[float]]:
    """What would come out under each mistake."""
    right, saved = break_even(cost, eager, compiled), eager - compiled
    under: dict[str, list[float]] = {
        "compared the wrong way round": [break_even(cost, compiled, eager)],
        "never is infinity": [cost / saved] if saved < 0 else [right],
        "free is no exception": [math.inf, right] if cost == 0 and saved > 0 else [right],
    }
    if cost == 0 and saved <= 0:
        under["free is no exception"] = [0.0, right]
    if saved:
        under["compared the wrong way round"] += [-cost / saved, *([saved / cost] if cost else [])]
    if math.isfinite(right):
        under["rounded"] = [math.ceil(right), math.floor(right), round(right), math.floor(right) + 1]
        under["rounded"] += [round(right, digits) for digits in range(1, 10)]
    return under


def _close(found: float, wanted: float) -> bool:
    if math.isnan(found) or math.isinf(wanted) or math.isinf(found):
        return found == wanted
    return math.isclose(found, wanted, rel_tol=1e-6, abs_tol=1e-9)

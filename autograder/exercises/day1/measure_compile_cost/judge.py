"""What honest measuring is. The judge knows the script of the device, so it knows every figure exactly."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from random import Random

from autograder.exchange.evidence import Case, Evidence
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
    "minimum instead of median": "You took the best run: it flatters. Report the median.",
    "standard deviation as spread": (
        "You took the standard deviation: one outlier dominates it. The interquartile range is the distance between "
        "the first and the third quartile."
    ),
    "range as spread": "You took largest minus smallest: that is the outlier again. Take the interquartile range.",
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
    "wrong break-even": (
        "The break-even is the compile cost divided by what each call saves, as it is, without rounding."
    ),
}


def hidden_cases(random: Random) -> list[Case]:
    """Other scripts, each with slow warm-up calls and an outlier, and other comparisons."""
    cases = []
    for number in range(3):
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


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    yield from _judge_measuring(case, evidence)
    yield from _judge_break_even(case, evidence)


def _judge_measuring(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
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
    if not _close(median, statistics.median(timed)):
        yield _why_not_the_median(median, spread, spans, warmup, repeats), f"(found {median:.4g} s)"
        return
    if events.count("call") != 1 + warmup + repeats:
        yield "wrong number of calls", f"(found {events.count('call')}, wanted {1 + warmup + repeats})"
        return
    if not _close(results["compile_seconds"], spans[0]):
        yield "compile cost wrong", f"(found {results['compile_seconds']:.4g} s)"
        return
    if not _close(spread, interquartile_range(timed)):
        yield _why_not_the_spread(spread, timed), f"(found {spread:.4g} s)"


def _why_not_the_median(median: float, spread: float, spans: list[float], warmup: int, repeats: int) -> str:
    """The misconception under which one would get this figure."""
    timed = spans[1 + warmup :]
    mean = statistics.fmean(timed)
    if _close(median, mean):
        return "one interval for all" if spread == 0 else "mean instead of median"
    explanations: list[tuple[str, list[float]]] = [
        ("compilation in the steady state", spans),
        ("compilation in the steady state", spans[:repeats]),
        ("compilation in the steady state", [spans[0], *timed]),
        ("warm-up counted", spans[1:]),
        ("warm-up counted", spans[1 : 1 + repeats]),
    ]
    for name, chosen in explanations:
        if _close(median, statistics.median(chosen)):
            return name
    return "minimum instead of median" if _close(median, min(timed)) else "wrong median"


def _why_not_the_spread(spread: float, timed: list[float]) -> str:
    """The misconception under which one would get this figure."""
    if _close(spread, statistics.stdev(timed)) or _close(spread, statistics.pstdev(timed)):
        return "standard deviation as spread"
    return "range as spread" if _close(spread, max(timed) - min(timed)) else "wrong spread"


def _busy_readings(case: Case, events: list[str]) -> int:
    """Play the events on a device of the judge's own; how often its clock is read while it is busy."""
    device = instrument(case)
    for event in events:
        device.answer(event)
    return device.busy


def _judge_break_even(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    for (cost, eager, compiled), found in zip(case.parameters["comparisons"], evidence.values["compared"], strict=True):
        saved = eager - compiled
        wanted = cost / saved if saved > 0 else math.inf
        value = float(found) if isinstance(found, (float, str)) and found != "division by zero" else None
        if value is not None and (value == wanted or _close(value, wanted)):
            continue
        detail = f"(for {cost:.4g}, {eager:.4g}, {compiled:.4g}: found {found})"
        if value is not None and saved != 0 and (_close(value, -cost / saved) or _close(value, saved / cost)):
            # A negative number for "never" is the right quotient of the wrong case.
            yield "compared the wrong way round", detail
        elif value is not None and wanted != math.inf and value == math.inf:
            yield "compared the wrong way round", detail
        elif wanted == math.inf:
            yield "never is infinity", detail
        else:
            yield "wrong break-even", detail
        return


def _close(found: float, wanted: float) -> bool:
    return math.isclose(found, wanted, rel_tol=1e-6, abs_tol=1e-9)

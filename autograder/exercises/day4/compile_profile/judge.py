"""What an honest profile is. The judge knows the script of the machine, so it knows every figure exactly."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day4.compile_profile.visible import LAUNCH_SECONDS, PLAIN, RESULTS, instrument

MISCONCEPTIONS = {
    "rows missing": (
        "`compile_profile` must return a dictionary with a row for each name, and each row the numbers `cost_seconds` "
        "and `call_seconds`."
    ),
    "rows of others": (
        "Your profile has rows of names that this call was not given. Begin a new dictionary in each call: whoever "
        "chooses the cheapest would choose among all of them."
    ),
    "device still busy": (
        "You read the clock while the device was still computing: a call only hands work over. Call `synchronize()` "
        "before every reading, at the start of an interval as well as at its end."
    ),
    "timed the compilation": (
        "What you say of a call contains the first one, and so the compilation. That is paid once: it belongs to the "
        "cost, not to each call."
    ),
    "no warm-up": (
        "What you say of a call contains the warm-up calls: caches fill, clocks rise. Call `warmup` times and throw "
        "these times away."
    ),
    "plain model not warmed up": (
        "The compiled model is warmed up and the plain one is not: so every compiler looks good. Treat all alike."
    ),
    "mean instead of median": "You took the mean: one outlier moves it. The median leaves it alone.",
    "best run": "You took the best run: it flatters. Report the median of the timed calls.",
    "wrong call time": "`call_seconds` is the median of the timed calls, each timed on its own.",
    "wrong number of calls": (
        "Each function must be called once to compile, `warmup` times without timing, and `repeats` times with."
    ),
    "cost holds a run": (
        "The first call compiles *and computes*. What it computes is paid with or without a compiler: take one call of "
        "the steady state off."
    ),
    "plain model is not free": (
        "The first call of the plain model costs more than the others, too: it loads kernels and reserves memory. Its "
        "row has a cost like the others."
    ),
    "cost cut at 0": (
        "You cut a cost off at 0. A first call may be shorter than the others, and what it saved belongs into the "
        "total: the cost is the difference as it is."
    ),
    "wrong cost": "`cost_seconds` is by how much the first call took longer than a call in the steady state.",
    "forgot what the plain model costs": (
        "In your break-even the plain model has no first call. Only what compiling costs *more* has to be earned."
    ),
    "never is infinity": (
        "When a compiled call is no faster, compiling never pays: return `math.inf`, not a negative number or an error."
    ),
    "compared the wrong way round": (
        "What a call saves is plain minus compiled. You have it, or the quotient, the wrong way round."
    ),
    "not a whole number": "A break-even is a number of calls: a whole one, and at least 1.",
    "one call short": (
        "After that many calls the compiled model is still behind: round *up* to the next whole number of calls."
    ),
    "one call late": (
        "One call earlier the compiled model has already taken no more time than the plain one. Where both totals are "
        "exactly equal, that is enough."
    ),
    "wrong break-even": (
        "The break-even is the least whole number of calls, from 1, after which the compiled model has taken no more "
        "time than the plain one, its first call included."
    ),
    "gave up counting": (
        "You say that compiling never pays, and it does, only after very many calls. However little each call saves, "
        "it adds up: work the number out instead of counting up to some limit."
    ),
    "nearly equal": (
        "You take for equal what is only nearly equal. Compare the seconds as they are, without a tolerance and "
        "without rounding: what a call saves may be very little, and so may the difference between two totals."
    ),
    "fastest call wins": (
        "You choose by the time of a call alone. For a short job the compilation costs more than it gives: compare the "
        "totals."
    ),
    "least cost wins": "You choose by the cost alone. For a long job what each call takes decides: compare the totals.",
    "first call apart": (
        "You count the first call apart from the others, and so one call too few. `cost_seconds` is what the first "
        "call takes *longer*: the total of so many calls is the cost, and `call_seconds` for each of them."
    ),
    "another of two that are equal": (
        "Two ways take exactly as long for this number of calls. The task asks for the first of them in the dictionary."
    ),
    "changed what it was given": (
        "Your code changed what it was given: a row, a profile, or the dictionary of functions. Whoever goes on with "
        "it gets other figures. Only read it."
    ),
    "not the cheapest": "For this number of calls another one takes less time in total: its cost, and all its calls.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Other scripts, each with slow warm-up calls and an outlier; other comparisons and jobs."""
    cases = []
    for number in range(3):
        warmup, repeats = random.randint(1, 4), (6, 7, 8)[number]  # an even count has two values in the middle
        # What is compared and chosen among is drawn apart from the script, of which it would tell something.
        figures = {"warmup": warmup, "repeats": repeats} | _figures(random)
        cases.append(Case(f"hidden {number}", figures, kept=_script(random, warmup, repeats)))
    plain = {"first": 2.0, "runs": [0.5, 0.75, 0.75, 0.5]}
    names = ["a plain model", "reduce-overhead"]
    nearly = _nearly_equal(random)
    comparisons = [list(one) for one in CLOSE_COMPARISONS] + nearly["comparisons"]
    figures = {"warmup": 1, "repeats": 2, "comparisons": comparisons}
    figures |= {"names": names, "jobs": [[rows, calls] for rows, calls in JOBS_OF_OTHER_NAMES] + nearly["jobs"]}
    kept = dict(zip(names, (plain, plain | {"runs": [0.25, 0.5, 0.25, 0.5]}), strict=True))
    cases.append(Case("hidden other names", figures, kept=kept))
    shorter = {"first": 0.0, "runs": [0.25, 0.5, 0.75, 0.75, 0.5, 0.75]}
    slower = {"first": 1.0, "runs": [0.25, 0.5, 0.5, 0.25, 0.25, 0.5]}
    figures = {
        "warmup": 1,
        "repeats": 4,
        "comparisons": [[-0.5, 0.5, 1.0, 0.25]],
        "jobs": [*map(list, JOBS_AT_ONE_CALL)],
    }
    names = [NAMES[2], PLAIN, NAMES[1]]
    kept = dict(zip(names, (shorter, shorter, slower), strict=True))
    cases.append(Case("hidden first calls that are shorter", figures | {"names": names}, kept=kept))
    # No float of single precision is 1.1, and none tells so small a cost.
    kept = {NAMES[1]: {"first": 1e-5, "runs": [1.1] * 5}, PLAIN: {"first": 0.0, "runs": [1.3, 1.2, 1.1, 1.2, 1.4]}}
    figures = {"warmup": 1, "repeats": 3, "comparisons": [], "jobs": [], "names": list(kept), "pending": 0.5}
    cases.append(Case("hidden a device at work already, and a small cost", figures, kept=kept))
    return cases


NAMES = (PLAIN, "aot_eager", "inductor")


def _firsts_and_steady(random: Random) -> tuple[list[float], list[float]]:
    firsts = [random.uniform(0.2, 0.9), random.uniform(2, 4), random.uniform(8, 20)]
    return firsts, [random.uniform(0.2, 0.4), random.uniform(0.12, 0.18), random.uniform(0.05, 0.1)]


def _script(random: Random, warmup: int, repeats: int) -> dict[str, Any]:
    script = {}
    for name, first, seconds in zip(NAMES, *_firsts_and_steady(random), strict=True):
        timed = [seconds * random.uniform(0.95, 1.05) for _ in range(repeats)]
        timed[random.randrange(repeats)] *= random.uniform(3, 6)
        script[name] = {"first": first, "runs": [seconds * random.uniform(2, 4) for _ in range(warmup + 1)] + timed}
    return script


def _figures(random: Random) -> dict[str, Any]:
    firsts, steady = _firsts_and_steady(random)
    plain, cost = steady[0], firsts[2]
    job = {
        name: {"cost_seconds": first, "call_seconds": seconds}
        for name, first, seconds in zip(NAMES, firsts, steady, strict=True)
    }
    first_break, last_break = _break_even(job[NAMES[0]], job[NAMES[1]]), _break_even(job[NAMES[1]], job[NAMES[2]])
    return {
        "names": list(NAMES),
        "comparisons": [
            [firsts[0], plain, cost, plain * random.uniform(0.4, 0.9)],
            [firsts[0], plain, cost, plain * random.uniform(1.1, 2.0)],
            [firsts[0], plain, cost, plain],
            [firsts[0], plain, firsts[0] * random.uniform(0.3, 0.9), plain * random.uniform(0.4, 0.9)],
            *EXACT_COMPARISONS,
        ],
        "jobs": [*([rows, calls] for rows, calls in (*EXACT_JOBS, JOBS_AT_ONE_CALL[0]))]
        + [[job, calls] for calls in (2, int(first_break + last_break) // 2, int(3 * last_break))],
    }


def _nearly_equal(random: Random) -> dict[str, Any]:
    """Figures that are nearly equal and are not, and a call that saves so little that very many have to be made.

    All sums and products of them are exact in double precision: whoever adds up totals gets the same as who divides.
    """
    little = 2.0**-33
    few, many = random.randint(2, 9), random.randint(2**23, 2**24)
    names = random.sample(["a plain model", "reduce-overhead", "max-autotune"], k=3)
    costs = [2.0 ** -random.randint(1, 6), 0.0, 2.0 ** -random.randint(1, 6)]
    rows = {name: {"cost_seconds": cost, "call_seconds": 1.0} for name, cost in zip(names, costs, strict=True)}
    return {
        "comparisons": [
            [0.0, 1.0 + little, few * little, 1.0],
            [0.0, 2.0, few + little, 1.0],
            [0.0, 1.0 + 2.0**-20, many * 2.0**-20, 1.0],
        ],
        "jobs": [[rows, 2**31]],
    }


EXACT_COMPARISONS = (
    [0.0, 2.0, 4.0, 1.0],
    [1.0, 0.75, 1.5, 0.25],
    [0.5, 0.25, 0.5, 0.25],
    [0.5, 0.25, 0.25, 0.25],
    [2.0, 0.5, 1.0, 1.0],
    [2.0, 0.5, 2.0, 0.25],
    [0.0, 0.0009765625, 1.0, 0.00048828125],
    [0.0, 0.001953125, 512.0, 0.0009765625],
)
"""Both totals meet after a whole number of calls, or nothing is saved, or nothing has to be earned: no rounding."""

EXACT_JOBS = (
    (
        {
            "inductor": {"cost_seconds": 2.0, "call_seconds": 0.5},
            "eager": {"cost_seconds": 1.0, "call_seconds": 1.0},
        },
        2,
    ),
    (
        {
            "eager": {"cost_seconds": 1.0, "call_seconds": 1.0},
            "aot_eager": {"cost_seconds": 4.0, "call_seconds": 1.0},
            "inductor": {"cost_seconds": 2.0, "call_seconds": 0.5},
        },
        2,
    ),
    ({"eager": {"cost_seconds": 1.0, "call_seconds": 1.0}, "inductor": {"cost_seconds": 1.5, "call_seconds": 0.5}}, 1),
    (
        {
            "eager": {"cost_seconds": 2.0**-23, "call_seconds": 2.0**-24},
            "inductor": {"cost_seconds": 2.0**-24, "call_seconds": 2.0**-25},
        },
        3,
    ),
)
"""Two ways take exactly as long: the first of them in the dictionary is meant. Then two that are not quite equal."""


MANY_CALLS = 10_000
"""So many calls are more than somebody may have the patience to count."""

JOBS_AT_ONE_CALL = (
    ({"eager": {"cost_seconds": 0.0, "call_seconds": 4.0}, "inductor": {"cost_seconds": 3.0, "call_seconds": 0.5}}, 1),
    (
        {"eager": {"cost_seconds": -1.0, "call_seconds": 1.0}, "inductor": {"cost_seconds": 0.5, "call_seconds": 0.75}},
        5,
    ),
    ({"eager": {"cost_seconds": 0.0, "call_seconds": 1.0}, "inductor": {"cost_seconds": 3.5, "call_seconds": 0.5}}, 6),
    (
        {
            "inductor": {"cost_seconds": 2.0, "call_seconds": 0.5},
            "aot_eager": {"cost_seconds": 1.0, "call_seconds": 0.75},
        },
        3,
    ),
)
"""Where one call more or less decides, or a cost below 0."""

CLOSE_COMPARISONS = (
    [0.5, 0.25, 2.5, 0.5],
    [2.0, 0.5, 2.0, 0.5],
    [0.0, 2.0, 2.0 + 2.0**-12, 1.0],
    [0.0, 2.0**-13, 1.0, 2.0**-14],
)
"""Nothing is saved, twice; a little more than two calls; very little is saved, and it pays all the same."""

JOBS_OF_OTHER_NAMES = (
    (
        {
            "a plain model": {"cost_seconds": 0.5, "call_seconds": 1.0},
            "reduce-overhead": {"cost_seconds": 8.0, "call_seconds": 0.25},
        },
        100,
    ),
    (
        {
            "reduce-overhead": {"cost_seconds": 1e9, "call_seconds": 0.5},
            "a plain model": {"cost_seconds": 0.5, "call_seconds": 100.0},
        },
        10_000_000,
    ),
    ({"max-autotune": {"cost_seconds": 5e8, "call_seconds": 2.0}}, 3),
)
"""No name that the task mentions, totals that are very large, and a choice among one."""


def total(row: dict[str, float], calls: float) -> float:
    """Seconds that so many calls take, with all that comes before them."""
    return row["cost_seconds"] + calls * row["call_seconds"]


def _break_even(plain: dict[str, float], compiled: dict[str, float]) -> float:
    """From how many calls on the compiled model has taken no more time; at least 1, infinity for never."""
    saved = plain["call_seconds"] - compiled["call_seconds"]
    if saved <= 0:
        return math.inf
    return max(1, math.ceil((compiled["cost_seconds"] - plain["cost_seconds"]) / saved))


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    yield from _judge_measuring(case, evidence)
    yield from _judge_break_even(case, evidence)
    yield from _judge_choice(case, evidence)
    if not evidence.values["kept"]:
        yield "changed what it was given", ""


def _judge_measuring(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    given, profile, events = case.parameters, evidence.values["profile"], evidence.values["seen"]
    warmup, repeats = given["warmup"], given["repeats"]
    if any(not isinstance(profile.get(name, {}).get(what), float) for name in given["names"] for what in RESULTS):
        yield "rows missing", ""
        return
    if evidence.values["others"]:
        yield "rows of others", f"({evidence.values['others'][0]})"
        return
    busy = _busy_readings(case, events)
    if busy:
        yield "device still busy", f"({busy} readings)"
        return
    spans = {name: _spans(row, 1 + warmup + repeats) for name, row in case.kept.items()}
    medians = medians_of(spans, warmup)
    wrong = [name for name in spans if not _close(profile[name]["call_seconds"], medians[name])]
    miscounted = [name for name in spans if events.count(name) != 1 + warmup + repeats]
    if wrong:
        found = profile[wrong[0]]["call_seconds"]
        why = _why_not_the_median(found, spans[wrong[0]], warmup, repeats)
        if why == "no warm-up" and wrong == [PLAIN]:
            why = "plain model not warmed up"
        if why != "wrong call time" or not miscounted:
            yield why, f"({wrong[0]}: found {found:.4g} s)"
            return
    if miscounted:
        name = miscounted[0]
        yield "wrong number of calls", f"({name}: found {events.count(name)}, wanted {1 + warmup + repeats})"
        return
    yield from _judge_cost(profile, spans, warmup)


def _judge_cost(
    profile: dict[str, dict[str, float]], spans: dict[str, list[float]], warmup: int
) -> Iterator[tuple[str, str]]:
    for name in sorted(spans, key=lambda name: name == PLAIN):
        found, first = profile[name]["cost_seconds"], spans[name][0]
        if _close(found, first - medians_of(spans, warmup)[name]):
            continue
        if _close(found, first):
            why = "cost holds a run"
        else:
            cut = found == 0 and first < medians_of(spans, warmup)[name]
            why = "plain model is not free" if name == PLAIN and found == 0 else "wrong cost"
            why = "cost cut at 0" if cut else why
        yield why, f"({name}: found {found:.4g} s)"
        return


def medians_of(spans: dict[str, list[float]], warmup: int) -> dict[str, float]:
    """For each function the median of its timed calls."""
    return {name: statistics.median(all_[1 + warmup :]) for name, all_ in spans.items()}


def _spans(row: dict[str, Any], calls: int) -> list[float]:
    """How long each call of a function takes, from handing over to finished."""
    spans = [LAUNCH_SECONDS + seconds for seconds in row["runs"][:calls]]
    spans[0] += row["first"]
    return spans


def _why_not_the_median(found: float, spans: list[float], warmup: int, repeats: int) -> str:
    """The misconception under which one would get this figure."""
    timed = spans[1 + warmup :]
    if _close(found, statistics.median_low(timed)) or _close(found, statistics.median_high(timed)):
        return "wrong call time"  # one of two values in the middle, which the first call among them gives, too
    explanations: list[tuple[str, list[float]]] = [
        ("timed the compilation", spans),
        ("timed the compilation", spans[:repeats]),
        ("timed the compilation", [spans[0], *timed]),
        ("no warm-up", spans[1:]),
        ("no warm-up", spans[1 : 1 + repeats]),
    ]
    for name, chosen in explanations:
        if _close(found, statistics.median(chosen)) or _close(found, statistics.fmean(chosen)):
            return name
    if _close(found, statistics.fmean(timed)):
        return "mean instead of median"
    return "best run" if _close(found, min(timed)) else "wrong call time"


def _busy_readings(case: Case, events: list[str]) -> int:
    """Play the events on a machine of the judge's own; how often its clock is read while it is busy."""
    machine = instrument(case)
    for event in events:
        machine.answer(event)
    return machine.busy


def _judge_break_even(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    for figures, found in zip(case.parameters["comparisons"], evidence.values["compared"], strict=True):
        plain, compiled = (dict(zip(RESULTS, pair, strict=True)) for pair in (figures[:2], figures[2:]))
        wanted = _break_even(plain, compiled)
        value = float(found) if isinstance(found, float) or found in ("inf", "-inf", "nan") else None
        if value == wanted:
            continue
        said = " against ".join(
            f"{row['cost_seconds']:.4g} + n * {row['call_seconds']:.4g}" for row in (plain, compiled)
        )
        yield _why_not_the_break_even(value, wanted, plain, compiled), f"(for {said}: found {found})"
        return


def _why_not_the_break_even(
    value: float | None, wanted: float, plain: dict[str, float], compiled: dict[str, float]
) -> str:
    """The misconception under which one would get this number of calls."""
    if value is None or math.isnan(value):
        return "never is infinity" if wanted == math.inf else "wrong break-even"
    more, saved = compiled["cost_seconds"] - plain["cost_seconds"], plain["call_seconds"] - compiled["call_seconds"]
    if wanted == math.inf:
        # A negative number for "never" is the right quotient of the wrong case; a positive one has the signs turned.
        return "never is infinity" if value <= 1 or saved == 0 else "compared the wrong way round"
    if value == math.inf and wanted > MANY_CALLS:
        return "gave up counting"  # fewer calls were right
    if math.isclose(plain["call_seconds"], compiled["call_seconds"]):
        return "nearly equal"
    if value == wanted - 1 and math.isclose(value, more / saved):
        return "nearly equal"
    if value == math.inf or (value < 0 and more > 0):
        return "compared the wrong way round"
    if _close(value, compiled["cost_seconds"] / saved) or value == math.ceil(compiled["cost_seconds"] / saved):
        return "forgot what the plain model costs"
    if value != int(value) or (value < 1 and wanted == 1):
        return "not a whole number"
    return {wanted - 1: "one call short", wanted + 1: "one call late"}.get(value, "wrong break-even")


def _judge_choice(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    jobs, chosen = case.parameters["jobs"], evidence.values["chosen"]
    wanted = [_least_total(rows, calls) for rows, calls in jobs]
    wrong = [number for number, found in enumerate(chosen) if found != wanted[number]]
    if not wrong:
        return
    rows, calls = jobs[wrong[0]]
    found = chosen[wrong[0]]
    totals = ", ".join(f"{name} {total(row, calls):.4g} s" for name, row in rows.items())
    nearly = [_first_of_the_nearly_least(rows, calls) for rows, calls in jobs]
    habits = {
        "nearly equal": [nearly],
        "fastest call wins": [[_least(rows, lambda row: row["call_seconds"]) for rows, _ in jobs]],
        "least cost wins": [[_least(rows, lambda row: row["cost_seconds"]) for rows, _ in jobs]],
        "first call apart": [[_least_total(rows, calls - 1) for rows, calls in jobs]],
        "another of two that are equal": [
            [_least_total(dict(reversed(rows.items())), calls) for rows, calls in jobs],
            *(
                [_least_total(dict(sorted(rows.items(), reverse=z_first)), calls) for rows, calls in jobs]
                for z_first in (False, True)
            ),
        ],
    }
    fits = [name for name, ways in habits.items() if chosen in ways]
    why = fits[0] if len(fits) == 1 else "not the cheapest"
    yield why, f"(for {calls} calls: expected {wanted[wrong[0]]}, found {found}; in total {totals})"


def _least_total(rows: dict[str, dict[str, float]], calls: float) -> str:
    """The first of those that take least for so many calls."""
    return _least(rows, lambda row: total(row, calls))


def _first_of_the_nearly_least(rows: dict[str, dict[str, float]], calls: float) -> str:
    """The first of those that take least, with what Python takes for close."""
    totals = {name: total(row, calls) for name, row in rows.items()}
    return next(name for name, seconds in totals.items() if math.isclose(seconds, min(totals.values())))


def _least(rows: dict[str, dict[str, float]], key: Callable[[dict[str, float]], float]) -> str:
    """The first of those names whose row comes out least."""
    return min(rows, key=lambda name: key(rows[name]))


def _close(found: float, wanted: float) -> bool:
    return math.isclose(found, wanted, rel_tol=1e-6, abs_tol=1e-9)

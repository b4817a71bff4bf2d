"""What an honest choice is. The engines lie with the judge, which plays the learner's steps and knows every figure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day5.choose_engine.visible import EAGER, RIGHT, Values, engines_case, instrument

MISCONCEPTIONS = {
    "no decision": (
        "`choose_engine` must return a dictionary: `taken`, a name; `refused`, a list of names; `speed_up`, a number "
        "for each engine that is not refused."
    ),
    "example only": (
        "You kept an engine that is right on the example and wrong on another input: it remembers its first result. "
        "Compare on all inputs."
    ),
    "others only": (
        "You kept an engine that is off on the example and right on the other inputs. Compare on the example, too."
    ),
    "error is no refusal": (
        "You kept an engine that raises, or your function raised with it. What cannot answer every call is refused, "
        "whatever the kind of its error."
    ),
    "too generous": (
        "You kept an engine that is off by more than 1e-4 of the largest value, as one is that rounds to three digits. "
        "1.5e-4 is more, too."
    ),
    "tolerance by itself": (
        "You kept an engine that is off by a thousandth of the largest value, where all values are small: the "
        "tolerance is 1e-4 *times* the largest value that `eager` gives."
    ),
    "tolerance of another input": (
        "You kept an engine that is off by a thousandth of the largest value for one input, where `eager` gives larger "
        "values for another one: the tolerance is 1e-4 times the largest value for the *same* input."
    ),
    "one value compared": (
        "You kept an engine of which one value is off, and neither the first nor the last. Compare each value."
    ),
    "infinity let through": (
        "You kept an engine that gives infinity. The tolerance is 1e-4 times the largest value that `eager` gives, not "
        "of what the engine gives."
    ),
    "NaN let through": (
        "You kept an engine that gives NaN. Every comparison with NaN is false: ask whether the error is small enough, "
        "not whether it is too large."
    ),
    "length not compared": (
        "You kept an engine that gives more or fewer values than `eager`. `zip` stops where the shorter list ends."
    ),
    "overwritten result": (
        "You kept an engine that hands out a list a second time: a later call overwrites an earlier result. Keep a "
        "result, call again with all the other inputs, and look at the first one once more."
    ),
    "values in another order": (
        "You kept an engine that gives the right values in another order. Compare value by value, each with `eager`'s "
        "in the same place."
    ),
    "refused and timed": "You give a `speed_up` for an engine that you refused: only the rest is timed.",
    "right one refused": "You refused an engine that is right on every input.",
    "near one refused": (
        "You refused an engine that is off by half of what is allowed: 1e-4 of the *largest* value that `eager` gives "
        "for this input, for each of its values."
    ),
    "compilation timed": "The first call of an engine compiles. Call each one before you time any.",
    "wrong number of rounds": "Each engine that is not refused is timed `rounds` times, each call by itself.",
    "one after the other": (
        "You timed one engine after the other. What else happened on the machine meanwhile hit one and spared another: "
        "time them in turn, round by round."
    ),
    "ratio of other rounds": (
        "`speed_up` is the median over the rounds of what eager took, divided by what the engine took *in the same "
        "round*. Two medians by themselves, or means, let through what disturbed one round."
    ),
    "upside down": "A `speed_up` above 1 says that the engine is faster: divide eager's seconds by its own.",
    "too few rounds won": (
        "You took an engine that beats eager in fewer than three of four rounds. As fast is not faster, and of 6 "
        "rounds 4 are not enough."
    ),
    "spread ignored": (
        "You took an engine that is not faster in three of four rounds. Where the gain is no larger than the spread, "
        "keep eager."
    ),
    "not the fastest": "Another engine that is right has a larger `speed_up`, and is faster in three of four rounds.",
    "eager kept": "You kept eager, although a right engine is faster in three of four rounds and more.",
}

WHY = {  # the most telling first, since who compares on the example only keeps nearly all of them
    "remembers": "example only",
    "rounds": "too generous",
    "half more": "too generous",
    "one value": "one value compared",
    "not a number": "NaN let through",
    "endless": "infinity let through",
    "longer": "length not compared",
    "shorter": "length not compared",
    "turned": "values in another order",
    "above": "tolerance by itself",
    "later": "tolerance of another input",
    "earlier": "others only",
    "below": "too generous",
    "refuses": "error is no refusal",
    "fails": "error is no refusal",
    "stops": "error is no refusal",
    "overwrites": "overwritten result",
    "alternates": "overwritten result",
}

CLOSE = 1e-6


def hidden_cases(random: Random) -> list[Case]:
    """Other engines of every kind, other weather; and one where the best engine gains less than the spread."""
    return [*_fixed_cases(), *(_case(f"hidden {number}", random, gains=number != 1) for number in range(3))]


def _row(seconds: float | list[float], kind: str = "right") -> dict[str, Any]:
    return {"kind": kind, "first": 3.0, "seconds": seconds}


def _fixed_cases() -> list[Case]:
    """What is easily forgotten, on a machine that nobody else uses: in any order of calls the rounds are the same."""
    usual, small, large = (
        [[1.5, -2.0, 3.0], [0.5, 4.0, 1.0]],
        [[0.01, 0.02], [0.03, -0.01]],
        [[300.0, 0.1, -7.0], [0.5, 0.2, -0.1]],
    )
    eager = _row(1.0)
    told: list[tuple[str, int, list[Values], dict[str, dict[str, Any]]]] = [
        (
            "three of four rounds",
            8,
            usual,
            {EAGER: eager, "five": _row([0.1] * 5 + [2.0] * 3), "six": _row([0.5] * 6 + [2.0] * 2), "nine": _row(0.9)},
        ),
        (
            "a number of rounds that four does not divide",
            6,
            usual,
            {EAGER: eager, "four": _row([0.1] * 4 + [2.0] * 2), "five": _row([0.5] * 5 + [2.0])},
        ),
        ("as fast as eager", 4, usual, {EAGER: eager, "equal": _row(1.0), "half": _row([0.5, 0.5, 1.0, 1.0])}),
        ("one round", 1, usual, {EAGER: eager, "faster": _row(0.5), "slower": _row(2.0)}),
        ("equal speed-ups", 4, usual, {EAGER: eager, "one": _row(0.5), "slow": _row(1.5), "other": _row(0.5)}),
        ("eager is not the first", 4, usual, {"slow": _row(3.0), "fast": _row(0.5), EAGER: eager}),
        ("nothing but eager", 4, usual, {EAGER: eager}),
        ("small values", 4, small, {EAGER: eager, "off": _row(0.1, "above"), "near": _row(0.5, "near")}),
        (
            "large values beside small ones",
            4,
            large,
            {EAGER: eager, "near": _row(0.5, "near"), "off": _row(0.1, "later")},
        ),
        ("half more than allowed", 4, usual, {EAGER: eager, "off": _row(0.1, "half more"), "right": _row(0.5)}),
        (
            "hundreds of numbers",
            4,
            [[1 + number % 7 for number in range(300)], [3 - number % 5 for number in range(700)]],
            {EAGER: eager, "off": _row(0.1, "one value"), "right": _row(0.5)},
        ),
        ("too small", 4, usual, {EAGER: eager, "off": _row(0.1, "below"), "right": _row(0.5)}),
        ("off on the example", 4, usual, {EAGER: eager, "off": _row(0.1, "earlier"), "right": _row(0.5)}),
        ("not a number", 4, usual, {EAGER: eager, "off": _row(0.1, "not a number"), "right": _row(0.5)}),
        ("infinity", 4, usual, {EAGER: eager, "off": _row(0.1, "endless"), "right": _row(0.5)}),
        ("one value of three", 4, usual, {EAGER: eager, "off": _row(0.1, "one value"), "right": _row(0.5)}),
        ("a value too many", 4, usual, {EAGER: eager, "off": _row(0.1, "longer"), "right": _row(0.5)}),
        ("a value too few", 4, usual, {EAGER: eager, "off": _row(0.1, "shorter"), "right": _row(0.5)}),
        ("answers that are remembered", 4, usual, {EAGER: eager, "cached": _row(0.1, "caches"), "right": _row(0.5)}),
        ("an error at once", 4, usual, {EAGER: eager, "out": _row(0.1, "fails"), "right": _row(0.5)}),
        ("an error of another kind", 4, usual, {EAGER: eager, "out": _row(0.1, "stops"), "right": _row(0.5)}),
        ("the other way round", 4, usual, {EAGER: eager, "off": _row(0.1, "turned"), "right": _row(0.5)}),
        (
            "two lists in turn",
            4,
            [[1.5, -2.0], [4.0, 1.0], [3.0, 0.5], [2.5, 5.0]],
            {EAGER: eager, "buffered": _row(0.1, "alternates"), "right": _row(0.5)},
        ),
        ("zeros", 4, [[0.5, 2.0], [0.0, 0.0]], {EAGER: eager, "near": _row(0.5, "near"), "slow": _row(2.0)}),
    ]
    cases = [engines_case(name, script, [1.0], rounds, inputs) for name, rounds, inputs, script in told]
    slower = [1.08**call for call in range(90)]
    script = {EAGER: eager, "faster": _row(0.8), "rounded": _row(0.5, "rounds")}
    return [*cases, engines_case("slower and slower", script, slower, 8, [[1.234567, 2.0], [3.0, 4.0]])]


def _case(name: str, random: Random, *, gains: bool) -> Case:
    eager = random.uniform(0.2, 0.6)
    names = random.sample(["left", "middle", "right", "upper", "lower", "outer"], 6)
    kinds = ["right", "right", "remembers", "rounds", "refuses", "overwrites"]
    shares = [random.uniform(0.5, 0.6), random.uniform(0.3, 0.4)] if gains else [random.uniform(1.02, 1.1), 1.2]
    shares += [random.uniform(0.02, 0.2) for _ in kinds[2:]]
    rows = [
        (name, {"kind": kind, "first": random.uniform(1, 9), "seconds": share * eager})
        for name, kind, share in zip(names, kinds, shares, strict=True)
    ]
    random.shuffle(rows)
    quiet = [1.0] * 7
    # Long enough for all timed calls of one engine, and a single slow call that no round can share.
    weather = [*quiet, *([random.uniform(1.5, 2.2)] * random.randint(5, 9)), *quiet, random.uniform(5, 8)]
    script: dict[str, dict[str, Any]] = {EAGER: {"kind": "right", "first": 0.2, "seconds": eager}, **dict(rows)}
    rounds = random.choice([8, 12])
    inputs = [[random.uniform(1, 3) for _ in range(3)], [random.uniform(3, 9) for _ in range(3)]]
    return engines_case(name, script, weather, rounds, [*inputs, [random.uniform(1, 9) for _ in range(2)]])


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    values = evidence.values
    script, rounds = case.kept["script"], case.parameters["rounds"]
    taken, refused, speed_up = values["taken"], values["refused"], values["speed_up"]
    if taken not in script or refused is None or speed_up is None:
        yield "no decision", ""
        return
    for kind, why in WHY.items():
        kept = [name for name, row in script.items() if row["kind"] == kind and name not in refused]
        if kept:
            yield why, f"({kept[0]})"
            return
    too_many = [name for name, row in script.items() if row["kind"] in RIGHT and name in refused]
    if too_many:
        near = script[too_many[0]]["kind"] == "near"
        yield ("near one refused" if near else "right one refused"), f"({too_many[0]})"
        return
    if both := [name for name in script if name in refused and speed_up.get(name)]:
        yield "refused and timed", f"({both[0]})"
        return
    right = [name for name, row in script.items() if row["kind"] in RIGHT]
    timed = _timed(case, values["seen"])
    if any(first for name in right for first, _, _ in timed.get(name, [])):
        yield "compilation timed", ""
        return
    seconds = {name: [span for _, span, _ in timed.get(name, [])] for name in right}
    alone = len(right) == 1  # then a call that warms it up stands between two readings of the clock, too
    wrong = [name for name in right if len(seconds[name]) != rounds and not (alone and len(seconds[name]) > rounds)]
    if wrong:
        yield "wrong number of rounds", f"({wrong[0]}: {len(seconds[wrong[0]])} timed calls, wanted {rounds})"
        return
    places = {name: [place for _, _, place in timed[name]] for name in right}
    # In turn: every engine has had its round before any has its next.
    if any(
        max(places[name][turn] for name in right) > min(places[name][turn + 1] for name in right)
        for turn in range(rounds - 1)
    ):
        yield "one after the other", ""
        return
    ratios = {name: [a / b for a, b in zip(seconds[EAGER], seconds[name], strict=True)] for name in right}
    for name in right:
        if name == EAGER and name not in speed_up:
            continue
        found, wanted = speed_up.get(name), statistics.median(ratios[name])
        if found is None:
            yield "no decision", f"({name} has no speed_up)"
            return
        if abs(found - wanted) > CLOSE * wanted:
            upside_down = abs(found * wanted - 1) < CLOSE and abs(wanted - 1) > 1e-3
            inverse = statistics.median([1 / one for one in ratios[name]])
            upside_down = upside_down or abs(found - inverse) < CLOSE * inverse
            figures = f"({name}: {found:.4g}, wanted {wanted:.4g})"
            yield ("upside down" if upside_down else "ratio of other rounds"), figures
            return
    worth = {name: statistics.median(own) for name, own in ratios.items() if _beyond_the_spread(own)}
    best = max(worth, key=lambda name: worth[name]) if worth else EAGER
    if taken == best or (taken in worth and worth[taken] >= (1 - CLOSE) * worth[best]):
        return
    if taken == EAGER:
        yield "eager kept", f"(instead of {best})"
    elif taken in worth:
        yield "not the fastest", f"({taken} instead of {best})"
    else:
        # Without weather nothing is disturbed: there is no spread, the rounds were counted otherwise.
        quiet = set(case.kept["weather"]) == {1.0}
        yield ("too few rounds won" if quiet else "spread ignored"), f"({taken} instead of {best})"


def _beyond_the_spread(ratios: list[float]) -> bool:
    """Whether an engine was faster in three of four rounds."""
    return 4 * sum(one > 1 for one in ratios) >= 3 * len(ratios)


def _timed(case: Case, events: list[str]) -> dict[str, list[tuple[bool, float, int]]]:
    """The calls that stand alone between two readings of the clock, played on a machine of the judge's own.

    Returns:
        For each engine: whether it was its first call, how long it took, and where in the order it stands.
    """
    machine = instrument(case)
    seen: set[str] = set()
    between: list[tuple[str, bool, int]] = []
    found: dict[str, list[tuple[bool, float, int]]] = {}
    last: float | None = None
    for place, event in enumerate(events):
        if event == "clock":
            now = machine.clock()
            if last is not None and len(between) == 1:
                name, first, where = between[0]
                found.setdefault(name, []).append((first, now - last, where))
            between, last = [], now
        else:
            machine.play(event)
            between.append((event, event not in seen, place))
            seen.add(event)
    return found

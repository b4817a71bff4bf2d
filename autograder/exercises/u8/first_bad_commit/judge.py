"""Which commits may be to blame follows from the tests on record; how many are enough, from a search of the judge's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u8.first_bad_commit.visible import History, ancestors, case, instrument, line

MISCONCEPTIONS = {
    "no list": "`first_bad` must return a list of names of commits.",
    "named twice": "Your list has a name twice. Each commit that may be to blame stands in it once.",
    "innocent": (
        "You blame a commit that a test has cleared. What is good has only good ancestors; and the culprit is "
        "an ancestor of everything that is bad."
    ),
    "one too early": ("You return the last good commit. The culprit is the *first bad* one."),
    "other line": (
        "You have missed the culprit: it lies on a branch that was merged. Ancestors are the parents of all the "
        "parents, not of the first ones only."
    ),
    "missing": "A commit is missing from the answer that no test has cleared: it may be the culprit.",
    "skip taken for bad": (
        "You've treated a commit that could not be tested as if it were bad. A `skip` says nothing about the fault."
    ),
    "skip taken for good": (
        "You've treated a commit that could not be tested as if it were good. A `skip` says nothing about the fault."
    ),
    "stopped too early": (
        "Several commits are left, and there's one whose test would tell them apart. Go on until no test would help."
    ),
    "tested twice": "You have tested the same commit more than once. A test may take an hour: remember its answer.",
    "tested what is known": (
        "You've tested a commit whose answer was known: one that a good commit descends from, or that descends from "
        "a bad one, or that was given to you."
    ),
    "too many tests": (
        "You needed too many tests. Each should rule out about half of the commits that are left, whatever its answer: "
        "then n commits take about log2(n)."
    ),
}


def suspects_of(parents: History, good: str, bad: str) -> set[str]:
    """The commits that may have broken it before anything is tested."""
    return ancestors(parents, bad) - ancestors(parents, good)


def left_after(parents: History, good: str, bad: str, record: list[list[str]]) -> set[str]:
    """The commits that may have broken it after these tests."""
    left = suspects_of(parents, good, bad)
    for commit, found in record:
        if found == "bad":
            left &= ancestors(parents, commit)
        elif found == "good":
            left -= ancestors(parents, commit)
    return left


def enough(parents: History, good: str, bad: str, untestable: frozenset[str]) -> int:
    """How many tests a search takes at worst that always halves as well as it can."""
    above = {commit: frozenset(ancestors(parents, commit)) for commit in parents}

    @cache
    def worst(left: frozenset[str], skipped: frozenset[str]) -> int:
        best = None
        for commit in sorted(above):
            inside = len(left & above[commit])
            value = min(inside, len(left) - inside)
            if commit not in skipped and value and (best is None or value > best[0]):
                best = (value, commit)
        if best is None:
            return 0
        commit = best[1]
        if commit in untestable:
            return 1 + worst(left, skipped | {commit})
        return 1 + max(worst(left & above[commit], skipped), worst(left - above[commit], skipped))

    return worst(frozenset(suspects_of(parents, good, bad)), frozenset())


def allowed(parents: History, good: str, bad: str, untestable: frozenset[str]) -> int:
    """How many tests an answer may take: on a straight history without skips log2(n), else two more than `enough`."""
    straight = all(len(above) < 2 for above in parents.values())
    if straight and not untestable:
        return math.ceil(math.log2(max(1, len(suspects_of(parents, good, bad)))))
    return enough(parents, good, bad, untestable) + 2


ENDS = ("c5", "c11", "side")
"""Good, bad and culprit of the history whose commits are listed from the last to the first, and whose branch began
before what is good."""


def hidden_cases(random: Random) -> list[Case]:
    """Ends of the line, merges of merges, skips in the middle; then histories that are drawn."""
    length = random.randint(1020, 1060)  # deeper than Python's stack: ancestors cannot be found by recursion
    cases = [
        case("the first after the good one", line(9), "c0", "c8", "c1"),
        case("the last", line(10), "c2", "c9", "c9"),
        case("one suspect", line(3), "c1", "c2", "c2"),
        case(
            "a long line",
            dict(reversed(line(length).items())),
            "c0",
            f"c{length - 1}",
            f"c{random.randint(1, length - 1)}",
        ),
        case("skips around the middle", line(16), "c0", "c15", "c3", ["c6", "c7", "c8", "c9"]),
        case("the culprit does not build", line(9), "c0", "c8", "c4", ["c4"]),
        # Nothing says that parents are listed before their children.
        case("children first", {**dict(reversed(line(11).items())), "c11": ["side", "c10"], "side": ["c4"]}, *ENDS),
        # A hundred thousand million ways lead from the last commit to the first.
        case("a ladder of merges", ladder(36), "l0", "l36", "r20"),
        case("many skips", line(40), "c0", "c39", "c5", [f"c{number}" for number in range(13, 27)]),
        case("a skip among few", line(5), "c0", "c4", "c3", ["c2"]),
        case(
            "a merge that does not build",
            {"base": [], "left": ["base"], "right": ["base"], "merge": ["left", "right"], "end": ["merge"]},
            *("base", "end", "merge", ["merge"]),
        ),
        case("skips above a good end", line(14), "c0", "c13", "c12", ["c6", "c7", "c8"]),
        # None of the suspects builds, and a commit beside them does.
        case(
            "a branch that was not merged",
            {**line(8), "side": ["c3"], "further": ["side"]},
            *("c0", "c7", "c2", ["c1", "c2", "c3", "c4", "c5", "c6", "side"]),
        ),
    ]
    for number in range(3):
        parents = drawn(random, random.randint(12, 30))
        names = list(parents)
        bad = names[-1]
        good = random.choice([names[0], *(one for one in names[:5] if one in ancestors(parents, bad))])
        suspects = sorted(suspects_of(parents, good, bad))
        culprit = random.choice(suspects)
        skips = random.sample(suspects, min(len(suspects), random.choice([0, 2, 3]))) if number else []
        cases.append(case(f"drawn {number}", parents, good, bad, culprit, sorted(set(skips) - {bad})))
    merged = merges(random)
    cases.append(case("merges of merges", *merged))
    return cases


def ladder(length: int) -> History:
    """Two lines side by side, of which each commit merges both before it: l0, then l1 and r1, l2 and r2, …"""
    steps = range(2, length + 1)
    merged = {f"{side}{number}": [f"l{number - 1}", f"r{number - 1}"] for number in steps for side in "lr"}
    return {"l0": [], "l1": ["l0"], "r1": ["l0"], **merged}


def drawn(random: Random, count: int) -> History:
    """A history in which every commit is an ancestor of the last one."""
    parents: History = {"k0": []}
    open_ends = ["k0"]
    for number in range(1, count):
        name = f"k{number}"
        merge = len(open_ends) > 1 and (random.random() < 0.3 or number > count - 1 - len(open_ends))
        chosen = random.sample(open_ends, 2) if merge else [random.choice(open_ends)]
        parents[name] = chosen
        branch = not merge and len(open_ends) < 3 and random.random() < 0.3 and number < count - 4
        open_ends = [one for one in open_ends if one not in chosen or (branch and one in chosen)] + [name]
    if len(open_ends) > 1:
        parents["last"] = open_ends
    return parents


def merges(random: Random) -> tuple[History, str, str, str]:
    """Two branches with a branch each, all merged; the culprit is on a second parent."""
    parents: History = {"m0": []}
    tips = []
    for side in "abcd":
        before = "m0"
        for number in range(random.randint(2, 5)):
            parents[f"{side}{number}"] = [before]
            before = f"{side}{number}"
        tips.append(before)
    parents |= {"left": tips[:2], "right": tips[2:], "all": ["left", "right"], "end": ["all"]}
    culprit = random.choice([one for one in parents if one[0] in "bd" and one != "b"])
    return parents, "m0", "end", culprit


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is wrong with the answer, as the tests on record tell; then with the number of tests.

    Raises:
        ValueError: the record is not one of this case's tests.
    """
    tests = instrument(case)
    if any(tests.answer(commit) != found for commit, found in evidence.values["seen"]):
        raise ValueError("the record is not one of this case's tests")
    name = _answer(case, evidence) or _tests(case, evidence)
    if name is not None:
        yield name, f"({len(evidence.values['seen'])} tests)"


def _answer(case: Case, evidence: Evidence) -> str | None:
    given, answer = case.parameters, evidence.values["answer"]
    if answer is None:
        return "no list"
    parents, good, bad, record = given["parents"], given["good"], given["bad"], evidence.values["seen"]
    left = left_after(parents, good, bad, record)
    told = set(answer)
    if len(told) < len(answer):
        return "named twice"
    skipped = {commit for commit, found in record if found == "skip"}
    if told == left:
        return "stopped too early" if _would_help(parents, left, record) else None
    for found, name in (("bad", "skip taken for bad"), ("good", "skip taken for good")):
        believed = [[commit, found if commit in skipped else one] for commit, one in record]
        if skipped and told == left_after(parents, good, bad, believed):
            return name
    if len(told) == 1 and len(left) == 1 and next(iter(told)) in parents[next(iter(left))]:
        return "one too early"
    first = _first_parents(parents, bad)
    if told and told <= first and not left <= first:
        return "other line"
    return "innocent" if told - left else "missing"


def _first_parents(parents: History, commit: str) -> set[str]:
    found = {commit}
    while parents[commit]:
        commit = parents[commit][0]
        found.add(commit)
    return found


def _would_help(parents: History, left: set[str], record: list[list[str]]) -> bool:
    if len(left) < 2:
        return False
    tested = {commit for commit, _ in record}
    return any(0 < len(left & ancestors(parents, commit)) < len(left) for commit in parents if commit not in tested)


def _tests(case: Case, evidence: Evidence) -> str | None:
    given, record = case.parameters, evidence.values["seen"]
    parents, good, bad = given["parents"], given["good"], given["bad"]
    commits = [commit for commit, _ in record]
    if len(set(commits)) < len(commits):
        return "tested twice"
    left = suspects_of(parents, good, bad)
    for commit, found in record:
        above = ancestors(parents, commit)
        if not 0 < len(left & above) < len(left):
            return "tested what is known"
        left = {"bad": left & above, "good": left - above}.get(found, left)
    most = allowed(parents, good, bad, frozenset(case.kept["untestable"]))
    return "too many tests" if len(record) > most else None


def figures(case: Case) -> dict[str, Any]:
    """How many suspects a case has and how many tests are allowed, for a test of this judge."""
    given = case.parameters
    ends = (given["parents"], given["good"], given["bad"])
    return {"suspects": len(suspects_of(*ends)), "allowed": allowed(*ends, frozenset(case.kept["untestable"]))}

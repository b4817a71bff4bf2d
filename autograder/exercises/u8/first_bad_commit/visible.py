"""The learner's side: histories, the tests that lie outside, and what the check shows."""

from __future__ import annotations

from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.outside import held

History = dict[str, list[str]]
"""Each commit with its parents."""

MOST_NAMES = 200
"""How many names of an answer become evidence."""


class Tests:
    """Checks out commits and tests them: `answer(commit)` is "good", "bad" or "skip". `record` is what was tested."""

    def __init__(self, parents: History, culprit: str, untestable: list[str]) -> None:
        self._parents, self._untestable = parents, set(untestable)
        self._broken = {commit for commit in parents if culprit in ancestors(parents, commit)}
        self.record: list[list[str]] = []

    def answer(self, question: str) -> str:
        """Test one commit.

        Raises:
            ValueError: there is no such commit.
        """
        if question not in self._parents:
            raise ValueError("no commit has this name")
        found = "skip" if question in self._untestable else "bad" if question in self._broken else "good"
        self.record.append([question, found])
        return found


def ancestors(parents: History, commit: str) -> set[str]:
    """The commit, its parents, their parents, and so on."""
    found: set[str] = set()
    waiting = [commit]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += parents[one]
    return found


def line(length: int) -> History:
    """Commits one after another: c0, c1, …"""
    return {f"c{number}": [f"c{number - 1}"] if number else [] for number in range(length)}


def visible_cases() -> list[Case]:
    """A straight history, one with a branch that was merged, and one with commits that don't build."""
    branched = {
        "a0": [],
        "a1": ["a0"],
        "b1": ["a1"],
        "b2": ["b1"],
        "b3": ["b2"],
        "a2": ["a1"],
        "a3": ["a2"],
        "a4": ["a3"],
        "merge": ["a4", "b3"],
        "a5": ["merge"],
    }
    return [
        case("a straight history", line(17), "c0", "c16", "c11"),
        case("a branch that was merged", branched, "a0", "a5", "b2"),
        case("commits that don't build", line(12), "c0", "c11", "c7", ["c5", "c6"]),
        case("nobody can tell", line(8), "c0", "c7", "c4", ["c3", "c4"]),
    ]


def case(name: str, parents: History, good: str, bad: str, culprit: str, untestable: list[str] | None = None) -> Case:
    """A history, of which only the judge knows who broke it."""
    return Case(
        name,
        {"parents": parents, "good": good, "bad": bad},
        kept={"culprit": culprit, "untestable": untestable or []},
    )


def instrument(case: Case) -> Tests:
    """The tests of a case, as new."""
    return Tests(case.parameters["parents"], case.kept["culprit"], case.kept["untestable"])


def probe(case: Case, first_bad: Any) -> Evidence:
    """Let the learner look for the commit; the tests run outside."""
    given = case.parameters
    ask, seen = held(lambda: instrument(case))
    parents = {commit: list(above) for commit, above in given["parents"].items()}
    found = first_bad(parents, given["good"], given["bad"], lambda commit: ask(str(commit)))
    names = found if isinstance(found, (list, tuple, set, frozenset)) else None
    answer = None if names is None else [str(one) for one in list(names)[:MOST_NAMES]]
    return Evidence({"answer": answer, "seen": seen})


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What was tested, in order, and the answer."""
    tested = ", ".join(f"{commit} {found}" for commit, found in evidence.values["seen"][:40])
    return [f"{case.name}: {len(evidence.values['seen'])} tests: {tested}\n  answer: {evidence.values['answer']}"]

"""Following a program through a graph: what it computes when, and what it keeps in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Finding = tuple[str, str]


def needed(nodes: Sequence[Any], outputs: Sequence[int]) -> set[int]:
    """Numbers of the nodes that have to be run for some outputs; inputs are given."""
    found: set[int] = set()
    left = list(outputs)
    while left:
        number = left.pop()
        if number not in found and nodes[number][0] != "input":
            found.add(number)
            left += nodes[number][1]
    return found


def followed(nodes: Sequence[Any], outputs: Sequence[int], program: Sequence[Sequence[Any]]) -> Finding | None:
    """What is wrong with a program; `None` if nothing is.

    Args:
        nodes: operator, numbers of inputs and shape of each node.
        outputs: numbers of the nodes that are wanted.
        program: pairs `("run", number)` and `("free", number)`.
    """
    wanted = needed(nodes, outputs)
    there: set[int] = set()
    freed: set[int] = set()
    last_read: dict[int, int] = {}
    freed_at: dict[int, int] = {}
    runs = 0
    for what, number in program:
        if not 0 <= number < len(nodes):
            return "read before it is there", f"(there is no node {number})"
        if nodes[number][0] == "input":
            return "runs an input", f"(node {number})"
        if what == "free":
            if number not in there:
                return "frees what is not there", f"(node {number})"
            if number in outputs:
                return "output freed", f"(node {number})"
            there.discard(number)
            freed.add(number)
            freed_at[number] = runs
            continue
        if number in there or number in freed:
            return "computed twice", f"(node {number})"
        if number not in wanted:
            return "dead code", f"(node {number}, {nodes[number][0]}, for the outputs {list(outputs)})"
        for one in nodes[number][1]:
            if one in freed:
                return "freed too early", f"(node {number} reads node {one})"
            if one not in there and nodes[one][0] != "input":
                return "read before it is there", f"(node {number} reads node {one})"
        runs += 1
        there.add(number)
        last_read |= dict.fromkeys([*nodes[number][1], number], runs)
    return _at_the_end(wanted, outputs, there, freed_at, last_read)


def _at_the_end(
    wanted: set[int], outputs: Sequence[int], there: set[int], freed_at: dict[int, int], last_read: dict[int, int]
) -> Finding | None:
    for number in outputs:
        if number in wanted and number not in there:
            return "output missing", f"(node {number})"
    for number in sorted(there - set(outputs)):
        return "never freed", f"(node {number})"
    for number, time in freed_at.items():
        if time > last_read[number]:
            return "freed late", f"(node {number}: last read by run {last_read[number]}, freed after run {time})"
    return None

"""Which stretches of a graph to recompute: for every rate of exchange between memory and time, the best choice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from fxopt_core.passes.recomputation.simulation import NodeRecord

LONGEST = 256
"""Most steps of a stretch (see `plans`). It keeps the work linear in the length of a graph."""

RATES = (0.0, *(10 ** (-power / 2) for power in range(8, -1, -1)))
"""Bytes that a unit of `NodeRecord.cost` must free to be worth it; 0 recomputes whatever frees any."""

SHARES = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64)
"""Of all that is saved, what one stretch may bring back at once."""

Stretch = tuple[int, int]
"""Numbers of the first node of a region and of the node after its last."""


@dataclass(frozen=True)
class Plan:
    """A choice of stretches that do not overlap.

    Attributes:
        stretches: in the order of the graph.
        cost: what computing them again costs, in the unit of `NodeRecord.cost`.
        held: bytes that are held at the end of forward, estimated.
    """

    stretches: tuple[Stretch, ...]
    cost: float
    held: float


def plans(
    records: Sequence[NodeRecord],
    sizes: Mapping[int, int],
    legal: Callable[[int, int], bool | None],
) -> list[Plan]:
    """Choices of stretches, from the cheapest to the dearest. The first recomputes nothing.

    Each node is either kept, and holds what it saves, or lies in a stretch, which holds its inputs (Chen et al.,
    *Training Deep Nets with Sublinear Memory Cost*, 2016; here stretches differ in size and cost). For each rate in
    `RATES` and each bound in `SHARES`, dynamic programming over the graph finds the choice with the least (bytes held
    until backward) + rate x (cost of computing again). What several nodes hold alike is counted for the last one.

    A *step* is one node that saves something, or several in a row that save nothing; stretches consist of steps.

    Args:
        records: of each node, in the order of the graph.
        sizes: bytes of each piece of memory.
        legal: whether the nodes from a first one to before an end may be recomputed together; `None` where no stretch
            with this first node may reach so far.
    """
    numbers = range(len(records))
    cuts = [0, *(n for n in numbers[1:] if records[n].saved or records[n - 1].saved), len(records)]
    steps = list(pairwise(dict.fromkeys(cuts)))
    last = {piece: number for number in numbers for piece in records[number].saved}
    kept = [sum(sizes[p] for n in range(*step) for p in records[n].saved if last[p] == n) for step in steps]
    # By the last step, the stretches that end with it: first step, bytes held, bytes brought back at once, cost.
    endings: list[list[tuple[int, int, int, float]]] = [[] for _ in steps]
    for first in range(len(steps)):
        for end, row in _grow(first, steps[first : first + LONGEST], records, sizes, last, legal):
            endings[end].append(row)
    columns = [tuple(torch.tensor(part, dtype=torch.float64) for part in zip(*rows, strict=True)) for rows in endings]
    nothing = Plan((), 0.0, float(sum(kept)))
    found = {nothing.stretches: nothing}
    for share in SHARES:
        bound = share * sum(kept)
        allowed = [tuple(column[part[2] <= bound] for column in part) if part else () for part in columns]
        for rate in RATES:
            plan = _best(steps, kept, allowed, rate)
            found.setdefault(plan.stretches, plan)
    return sorted(found.values(), key=lambda plan: (plan.cost, plan.held))


def _grow(
    first: int,
    steps: Sequence[Stretch],
    records: Sequence[NodeRecord],
    sizes: Mapping[int, int],
    last: Mapping[int, int],
    legal: Callable[[int, int], bool | None],
) -> Iterator[tuple[int, tuple[int, int, int, float]]]:
    """The legal stretches from one first step on that free something: number of the last step, and its row."""
    made: set[int] = set()
    inputs: set[int] = set()
    later: set[int] = set()
    inside: set[int] = set()
    held = back = 0
    cost = 0.0
    begin = steps[0][0]
    for number, (start, end) in enumerate(steps, first):
        whole = legal(begin, end)
        if whole is None:
            return
        for record in records[start:end]:
            new = record.used - made - inputs
            inputs |= new
            later |= new
            made |= record.made
            fresh = record.saved - inputs - inside
            inside |= fresh
            back += sum(sizes[piece] for piece in fresh)
            spent, cost = cost, cost + record.cost
        # What a later node saves is held by that one.
        due = {piece for piece in later if last.get(piece, -1) < end}
        later -= due
        held += sum(sizes[piece] for piece in due)
        if whole and back and records[end - 1].saved:
            # The second run stops before a last operator that only saves its arguments.
            stops = not (records[end - 1].saved & records[end - 1].made)
            yield number, (first, held, back, spent if stops else cost)


def _best(
    steps: Sequence[Stretch], kept: Sequence[int], columns: Sequence[tuple[torch.Tensor, ...]], rate: float
) -> Plan:
    least = torch.zeros(len(steps) + 1, dtype=torch.float64)
    # Of each step: the first step of the stretch that ends with it, and its cost.
    taken: list[tuple[int, float] | None] = []
    for number, part in enumerate(columns):
        value, choice = float(least[number]) + kept[number], None
        if part and len(part[0]):
            firsts, held, _, costs = part
            totals = least[firsts.long()] + held + rate * costs
            place = int(totals.argmin())
            if totals[place] < value:
                value, choice = float(totals[place]), (int(firsts[place]), float(costs[place]))
        least[number + 1] = value
        taken.append(choice)
    stretches: list[Stretch] = []
    total = 0.0
    number = len(steps)
    while number:
        choice = taken[number - 1]
        if choice is None:
            number -= 1
            continue
        first, cost = choice
        stretches.append((steps[first][0], steps[number - 1][1]))
        total += cost
        number = first
    return Plan(tuple(reversed(stretches)), total, float(least[-1]) - rate * total)

"""Blocks that come several times, one after the other: the layers of a transformer, the residual blocks of a stage.

Two blocks are the same if their nodes, in the order of the graph, do the same operations with the same attributes on
values of the same shapes and dtypes, and read each other, the block before, or what lies outside, in the same places.

Written as one symbol a node, the calls of a graph are a string, and repeated blocks are its runs (substrings of a
period). They are found by the ranks of all substrings whose length is a power of two (Karp, Miller, Rosenberg, Rapid
Identification of Repeated Patterns, 1972), so in time `n log n`; then the edges are compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves, tree_map

from fxopt_core.graphs.names import is_operation, operation_name

FEWEST = 4
"""Nodes of the smallest block."""

FEWEST_ALIKE = 3
"""Blocks that are alike only in their operations are worth a word from so many on."""

Values = Mapping[fx.Node, Any]


@dataclass(frozen=True)
class Repeat:
    """A block that comes at least twice, each time reading the one before.

    Attributes:
        copies: the nodes of each, in the order of the graph; what is at one place of two copies corresponds.
        same: whether the copies are the same; else they do the same operations, but differ in attributes or shapes.
        difference: in what they differ first; or, of the same ones, in what a next block of the same operations does.
    """

    copies: tuple[tuple[fx.Node, ...], ...]
    same: bool
    difference: str


def find_repeats(graph: fx.Graph, values: Values) -> tuple[Repeat, ...]:
    """Repeated blocks that do not overlap: of the same blocks those that save most nodes, then of others alike.

    Args:
        graph: any.
        values: what each node computes, as for `find_stages`.
    """
    calls = [node for node in graph.nodes if is_operation(node)]
    used = bytearray(len(calls))
    symbols = [_described(node, values) for node in calls]
    same = _choose(_Calls(calls, symbols), used)
    alike = _choose(_Calls(calls, [operation_name(node) for node in calls]), used)
    found = []
    for number, (start, period, copies) in enumerate(same):
        last = start + period * (copies - 1)
        next_ones = [last + period, *(start for start, _, _ in same[number + 1 :][:1])]
        told = (_difference(calls, symbols, last, one, period) for one in next_ones)
        found.append((start, period, copies, True, next(filter(None, told), "")))
    for start, period, copies in (one for one in alike if one[2] >= FEWEST_ALIKE):
        found.append((start, period, copies, False, _difference(calls, symbols, start, start + period, period)))
    return tuple(
        Repeat(tuple(tuple(calls[start + period * copy :][:period]) for copy in range(copies)), is_same, difference)
        for start, period, copies, is_same, difference in sorted(found)
    )


def _choose(string: _Calls, used: bytearray) -> list[tuple[int, int, int]]:
    """Start, period and number of blocks where nothing is used yet, in order; they are used then."""
    found = [block for run in string.runs() for block in string.blocks(*run)]
    taken = []
    for start, period, copies in sorted(found, key=lambda block: (block[1] - block[1] * block[2], block)):
        end = start + period * copies
        if not any(used[start:end]):
            used[start:end] = b"\1" * (end - start)
            taken.append((start, period, copies))
    return sorted(taken)


def _described(node: fx.Node, values: Values) -> tuple[str, ...]:
    """What a node does apart from which values it reads: operation, module, operands and result."""

    def operand(one: Any) -> Any:
        if not isinstance(one, fx.Node):
            return one
        return _form(values.get(one))

    owner = node.graph.owning_module
    module = owner.get_submodule(str(node.target)) if node.op == "call_module" and owner is not None else None
    operands = tree_leaves(fx.node.map_aggregate((node.args, tuple(node.kwargs.items())), operand))
    return (operation_name(node), str(module), *map(str, operands), _form(values.get(node)))


def _difference(calls: Sequence[fx.Node], symbols: Sequence[tuple[str, ...]], one: int, other: int, length: int) -> str:
    """In what the blocks at two places differ first; empty if they do not do the same operations."""
    if [each[0] for each in symbols[one : one + length]] != [each[0] for each in symbols[other : other + length]]:
        return ""
    for place in range(length):
        for here, there in zip(symbols[one + place], symbols[other + place], strict=False):
            if here != there:
                return f"{calls[one + place].name} has {here} where {calls[other + place].name} has {there}"
    return "they read other values"


def _form(value: Any) -> str:
    def of_one(leaf: Any) -> Any:
        return f"{str(leaf.dtype)[6:]}{list(leaf.shape)}" if isinstance(leaf, torch.Tensor) else type(leaf).__name__

    return str(tree_map(of_one, value))


class _Calls:
    """The calls of a graph as a string."""

    def __init__(self, calls: Sequence[fx.Node], symbols: Sequence[Any]) -> None:
        self.symbols = _ranked(symbols)
        places = {node: place for place, node in enumerate(calls)}
        # Inputs and parameters lie before the string, at negative places.
        self.reads = [[places.setdefault(one, -len(places)) for one in _operands(node)] for node in calls]
        last = {source: place for place, read in enumerate(self.reads) for source in read if source >= 0}
        changes = [0] * (len(calls) + 1)
        for source, place in last.items():
            changes[source + 1] += 1
            changes[place + 1] -= 1
        self.alive = list(accumulate(changes))
        """How many values are computed before each place and still read at it or later."""
        self.readers = Counter(source for read in self.reads for source in set(read))

    def runs(self) -> set[tuple[int, int, int]]:
        """Period, start and end of maximal substrings that consist of at least two periods."""
        found = set()
        ranks, length = self.symbols, 1
        while length <= len(self.symbols) // 2:
            seen: dict[int, int] = {}
            until: dict[int, int] = {}
            distances = []
            for place, rank in enumerate(ranks):
                distances.append(place - seen.get(rank, place))
                seen[rank] = place
            after = 0
            for period, group in groupby(distances):
                place, after = after, after + len(list(group))
                # What is alike for less than half a period here either is no run or is found at a greater length.
                if period >= FEWEST and 2 * (after - place + length) > period and place >= until.get(period, 0):
                    start, end = self._stretch(period, place)
                    until[period] = end
                    if end - start >= 2 * period:
                        found.add((period, start, end))
            ranks = _ranked(list(zip(ranks, ranks[length:], strict=False)))
            length *= 2
        return found

    def _stretch(self, period: int, place: int) -> tuple[int, int]:
        """Start and end of the longest substring of a period around a place that equals the one a period before."""
        start, end, string = place, place, self.symbols
        while start > period and string[start - 1] == string[start - 1 - period]:
            start -= 1
        while end < len(string) and string[end] == string[end - period]:
            end += 1
        return start - period, end

    def blocks(self, period: int, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Start, period and number of the blocks in a run: cut where fewest values cross, into as many as there are.

        Of several such cuts the last one behind a value that is read several times, as what goes around a block is;
        and where such a value is just handed on (converted, say), before that.
        """
        scores = [
            (self.alive[cut], -((end - cut) // period), self.readers[cut - 1] < 2)
            for cut in range(start + period, min(start + 2 * period, end - period + 1))
        ]
        best = min(scores)
        cut = max(offset for offset, score in enumerate(scores) if score == best) + start + period
        while len(handed := set(self.reads[cut - 1])) == 1:
            (source,) = handed
            if source < start + period - 1 or scores[source + 1 - start - period] != best:
                break
            cut = source + 1
        first, whole = cut - period, (end - cut) // period + 1
        last = first
        for copy in range(1, whole + 1):
            place = first + copy * period
            if copy < whole and self._same(place, period, place == last + period):
                continue
            if place - last >= 2 * period and self._chained(last + period, period):
                yield last, period, (place - last) // period
            last = place

    def _same(self, place: int, period: int, loosely: bool) -> bool:
        """Whether the block at a place reads as the one before does.

        Loosely, as the first block of all does: what others read of the block before it, it reads from anywhere.
        """
        anywhere: dict[int, int] = {}
        parameters: dict[int, int] = {}
        for here in range(place, place + period):
            if len(self.reads[here]) != len(self.reads[here - period]):
                return False
            for source, before in zip(self.reads[here], self.reads[here - period], strict=True):
                if source < 0:
                    # Another parameter, but one that takes the same parts in its block.
                    same = before < 0 and anywhere.setdefault(source, before) == before
                    same = same and parameters.setdefault(before, source) == source
                elif source >= place:
                    same = before == source - period
                elif source < place - period:
                    same = before == source
                elif loosely:
                    same = before < place - period and anywhere.setdefault(source, before) == before
                else:
                    same = before == source - period
                if not same:
                    return False
        return True

    def _chained(self, place: int, period: int) -> bool:
        """Whether the block at a place reads the one before."""
        return any(
            place - period <= source < place for here in range(place, place + period) for source in self.reads[here]
        )


def _ranked(items: Sequence[Any]) -> list[int]:
    """A number for each item, the same for equal ones."""
    numbers: dict[Any, int] = {}
    return [numbers.setdefault(item, len(numbers)) for item in items]


def _operands(node: fx.Node) -> list[fx.Node]:
    """The nodes that a node reads, in order, one that it reads twice as often."""
    found: list[fx.Node] = []
    fx.node.map_arg((node.args, node.kwargs), found.append)
    return found

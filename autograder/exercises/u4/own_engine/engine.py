"""An engine in Python that can make mistakes, so that a judge can tell which of them explains what it sees."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge


def _ways(flaw: str, *others: tuple[str, ...]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset({flaw, *one} - {""}) for one in product(*others))


FLAWS: dict[str, tuple[frozenset[str], ...]] = {
    "does not wait": _ways("at once", ("", "first in", "last in"), ("", "kept"), ("", "roots at once")),
    "waits for each node once": _ways("nodes, not edges"),
    "roots at once": _ways("roots at once", ("", "kept"), ("", "twice in line")),
    "one tensor after another": _ways("one by one"),
    "first in, first out": _ways("first in"),
    "last in, first out": _ways("last in"),
    "lowest first": _ways("lowest"),
    "leaves last": _ways("leaves last"),
    "keeps the last gradient": _ways("last gradient"),
    "output numbers ignored": _ways("first input"),
    "dtypes not restored": _ways("any dtype", ("", "but at leaves", "but inside")),
    "waits for a gradient that is None": _ways("None does not count"),
    "zeros for None": _ways("zeros"),
    "given gradients overwritten": _ways("into what was given"),
}
"""For each mistake (a misconception of the judge) the ways to make it, as what an engine does otherwise."""

RIGHT: frozenset[str] = frozenset()

MOST = 50_000
"""Calls after which a flawed engine gives up."""


def run_backward(
    tensors: list[torch.Tensor], gradients: list[torch.Tensor], flaws: frozenset[str] = RIGHT
) -> list[Any]:
    """Call every node behind some tensors, as the engine does but for some flaws.

    Returns:
        The nodes in the order of the calls.

    Raises:
        RuntimeError: the mistake makes a node raise, or the calls do not end.
    """
    if "one by one" in flaws:
        return [node for x, y in zip(tensors, gradients, strict=True) for node in run_backward([x], [y])]
    edges = [get_gradient_edge(one) for one in tensors]
    engine = _Engine(flaws, [edge.node for edge in edges])
    for edge, gradient in zip(edges, gradients, strict=True):
        engine.give(edge.node, edge.output_nr, gradient)
    # A dictionary keeps the order and drops what is there twice.
    for node in dict.fromkeys(edge.node for edge in edges):
        if "roots at once" in flaws or not engine.missing[node]:
            engine.ready.append(node)
    with torch.no_grad():
        return engine.run()


class _Engine:
    def __init__(self, flaws: frozenset[str], roots: list[Any]) -> None:
        self._flaws = flaws
        self.ready: list[Any] = []
        self._buffers: dict[Any, list[torch.Tensor | None]] = {}
        self.missing: Counter[Any] = Counter()
        self._given: set[tuple[Any, int]] = set()
        known = set(roots)
        waiting = list(known)
        while waiting:
            following = [node for node, _ in waiting.pop().next_functions if node is not None]
            self.missing.update(set(following) if "nodes, not edges" in flaws else following)
            waiting += [node for node in dict.fromkeys(following) if node not in known]
            known.update(following)

    def give(self, node: Any, number: int, gradient: torch.Tensor) -> None:
        """Begin at a node with a gradient of the caller's."""
        self.deposit(node, number, gradient)
        self._given.add((node, number))

    def deposit(self, node: Any, number: int, gradient: torch.Tensor | None) -> None:
        """Keep a gradient until its node is called."""
        inputs = node._input_metadata
        buffer = self._buffers.setdefault(node, [None] * len(inputs))
        number = 0 if "first input" in self._flaws else number
        if gradient is None:
            return
        gradient = gradient.sum_to_size(inputs[number].shape)
        exception = "but at leaves" if _is_leaf(node) else "but inside"
        if "any dtype" not in self._flaws or exception in self._flaws:
            gradient = gradient.to(inputs[number].dtype)
        before = None if "last gradient" in self._flaws else buffer[number]
        if before is not None and "into what was given" in self._flaws and (node, number) in self._given:
            before.add_(gradient)
            return
        buffer[number] = gradient if before is None else before + gradient

    def run(self) -> list[Any]:
        """Call what is ready until nothing is left."""
        called: list[Any] = []
        while self.ready:
            if len(called) > MOST:
                raise RuntimeError(f"more than {MOST:,} calls")
            node = self._next()
            called.append(node)
            found = node(*self._arguments(node))
            if "kept" not in self._flaws:
                self._buffers.pop(node, None)
            results = found if isinstance(found, tuple) else (found,)
            for (following, number), result in zip(node.next_functions, results, strict=True):
                if following is not None:
                    self.deposit(following, number, result)
                    if result is not None or "None does not count" not in self._flaws:
                        self._arrived(following)
        return called

    def _arguments(self, node: Any) -> list[torch.Tensor | None]:
        """What came to the inputs of a node."""
        inputs = node._input_metadata
        came = self._buffers.get(node, [None] * len(inputs))
        if "zeros" not in self._flaws:
            return came
        return [
            torch.zeros(tuple(wanted.shape), dtype=wanted.dtype) if one is None else one
            for one, wanted in zip(came, inputs, strict=True)
        ]

    def _next(self) -> Any:
        ready = self.ready
        if "first in" in self._flaws:
            return ready.pop(0)
        if "last in" in self._flaws:
            return ready.pop()
        choose = min if "lowest" in self._flaws else max
        node = choose(ready, key=self._priority)
        ready.remove(node)
        return node

    def _priority(self, node: Any) -> int:
        return -1 if "leaves last" in self._flaws and _is_leaf(node) else int(node._sequence_nr())

    def _arrived(self, node: Any) -> None:
        self.missing[node] -= 1
        again = "twice in line" in self._flaws or node not in self.ready
        if again and ("at once" in self._flaws or self.missing[node] == 0):
            self.ready.append(node)


def _is_leaf(node: Any) -> bool:
    return str(node.name()).endswith("AccumulateGrad")

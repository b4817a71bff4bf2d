"""What may be merged in a case's graph, found without the answer's tools, and what mistaken answers would merge."""

from __future__ import annotations

import copy
import operator
from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from torch import fx

from autograder.exchange.evidence import Case
from autograder.exchange.graph_form.nodes import all_nodes, module_of
from autograder.exercises.composed import once_a_case, original_of
from autograder.exercises.day2.programs import inputs_of
from autograder.exercises.explaining import OnDemand
from autograder.exercises.graph_comparison import (
    first_difference,
    own_behaviour,
)
from autograder.exercises.seen_effects import Seen, seen_effects
from fxopt_core.graphs import is_operation

BY_TRAP = {
    "modules": "compared modules by class",
    "keywords": "ignored keywords",
    "literals": "equal literals",
    "draws": "merged two draws",
    "training": "merged in training",
    "write between": "merged across a write",
    "written": "merged what is written",
    "returned": "merged what is returned",
    "switch": "merged across a switch",
    "unknown": "merged across the unknown",
    "containers": "lists are no tuples",
}
"""Which mistake a case is there for: where the case is right, the mistake is not made."""

WRONG = tuple(BY_TRAP.values())
"""Mistakes that merge too much."""

TOO_LITTLE = (
    "nothing merged", "first level only", "order of keywords", "lists not compared", "slices not compared",
    "one module twice", "methods not merged", "functions not merged", "forgot too often",
)  # fmt: skip
"""Mistakes that merge too little."""


class Merging:
    """The judge's own merging, by comparing every node with every earlier one; `mistakes` says which rule is broken."""

    def __init__(self, graph_module: fx.GraphModule, seen: Mapping[fx.Node, Seen], *mistakes: str) -> None:
        self.mistakes = set(mistakes)
        self.seen = seen
        self.nodes = list(graph_module.graph.nodes)
        self.stand_in: dict[fx.Node, fx.Node] = {}
        held = [*graph_module.parameters(), *graph_module.buffers()]
        outside = {int(tensor.untyped_storage()._cdata) for tensor in held}
        outside |= {
            place for node in self.nodes if node.op in ("placeholder", "get_attr") for place in seen[node].value
        }
        for node in self.nodes:
            if seen[node].unknown:
                outside |= seen[node].value.union(*(seen[source].value for source in node.all_input_nodes))
        written = {place for node in self.nodes for place in seen[node].wrote}
        # A caller may pass inputs that overlap; of what is unknown, anything may be written.
        if written & outside or any(seen[node].unknown for node in self.nodes):
            written |= outside
        self.written = written
        self.returned = self._closure(self.nodes[-1].all_input_nodes)

    def _closure(self, nodes: list[fx.Node]) -> set[fx.Node]:
        found, pending = set(), list(nodes)
        while pending:
            node = pending.pop()
            if node not in found:
                found.add(node)
                joins = node.target in (operator.add, operator.iadd)
                pending += [
                    source
                    for source in node.all_input_nodes
                    if joins or self.seen[source].value & self.seen[node].value
                ]
        return found

    def run(self) -> dict[fx.Node, fx.Node]:
        """Each node that may go, and the earlier one that stands in for it."""
        returned = set(self.returned)
        since: list[fx.Node] = []
        for node in self.nodes:
            if self._forgets(node):
                since.clear()
            if not node.op.startswith("call") or self._acts(node) or self._stays(node):
                continue
            for first in since:
                both = first in returned and node in returned and "merged what is returned" not in self.mistakes
                if not both and self._equal(first, node):
                    self.stand_in[node] = first
                    if node in returned:
                        returned.add(first)
                    break
            else:
                since.append(node)
        return self.stand_in

    def _forgets(self, node: fx.Node) -> bool:
        seen = self.seen[node]
        if node.op == "call_module" and "merged in training" in self.mistakes:
            return False
        if "forgot too often" in self.mistakes and seen.acts:
            return True
        return (
            (bool(seen.wrote) and "merged across a write" not in self.mistakes)
            or (seen.switched and "merged across a switch" not in self.mistakes)
            or (seen.unknown and "merged across the unknown" not in self.mistakes)
        )

    def _acts(self, node: fx.Node) -> bool:
        seen = self.seen[node]
        if seen.drew and "merged two draws" in self.mistakes and not seen.wrote:
            return False
        if node.op == "call_module" and "merged in training" in self.mistakes:
            return False
        return seen.acts

    def _stays(self, node: fx.Node) -> bool:
        kinds = {
            "call_module": "one module twice",
            "call_method": "methods not merged",
            "call_function": "functions not merged",
        }
        if kinds[node.op] in self.mistakes or "nothing merged" in self.mistakes:
            return True
        return bool(self.seen[node].value & self.written) and "merged what is written" not in self.mistakes

    def _equal(self, one: fx.Node, other: fx.Node) -> bool:
        if one.op != other.op:
            return False
        by_class = one.op == "call_module" and "compared modules by class" in self.mistakes
        if by_class and type(module_of(one)) is not type(module_of(other)):
            return False
        if not by_class and one.target != other.target:
            return False
        if not self._same(one.args, other.args):
            return False
        if "ignored keywords" in self.mistakes:
            return True
        if "order of keywords" in self.mistakes and list(one.kwargs) != list(other.kwargs):
            return False
        return self._same(dict(sorted(one.kwargs.items())), dict(sorted(other.kwargs.items())))

    def _same(self, one: Any, other: Any, depth: int = 0) -> bool:
        if isinstance(one, fx.Node) or isinstance(other, fx.Node):
            if "first level only" in self.mistakes:
                return one is other
            return self.stand_in.get(one, one) is self.stand_in.get(other, other)
        if isinstance(one, dict) and isinstance(other, dict):
            return one.keys() == other.keys() and all(self._same(one[key], other[key], depth) for key in one)
        if isinstance(one, list | tuple) and isinstance(other, list | tuple):
            if isinstance(one, list) != isinstance(other, list) and "lists are no tuples" not in self.mistakes:
                return False
            if depth and "lists not compared" in self.mistakes:
                return False
            return len(one) == len(other) and all(map(self._same, one, other, [depth + 1] * len(one)))
        if isinstance(one, slice) and isinstance(other, slice):
            if "slices not compared" in self.mistakes:
                return False
            return self._same((one.start, one.stop, one.step), (other.start, other.stop, other.step))
        if "equal literals" in self.mistakes:
            return bool(one == other)
        # Written out, 0.0 and -0.0 differ, and one NaN is like another.
        return type(one) is type(other) and repr(one) == repr(other)


def merged(graph_module: fx.GraphModule, pairs: Mapping[str, str]) -> fx.GraphModule:
    """A copy of the graph in which the second node of each pair of names stands in for the first, which is gone."""
    copied = copy.deepcopy(graph_module)
    nodes = {node.name: node for node in copied.graph.nodes}
    for name in pairs:
        first = pairs[name]
        while first in pairs:
            first = pairs[first]
        nodes[name].replace_all_uses_with(nodes[first])
    for name in reversed([node.name for node in copied.graph.nodes if node.name in pairs]):
        copied.graph.erase_node(nodes[name])
    copied.graph.lint()
    copied.recompile()
    return copied


def names_of(pairs: Mapping[fx.Node, fx.Node]) -> dict[str, str]:
    """The pairs by the names of their nodes."""
    return {node.name: first.name for node, first in pairs.items()}


@once_a_case
def seen_of(case: Case) -> dict[fx.Node, Seen]:
    """What each node of the case's graph does besides computing."""
    return seen_effects(original_of(case).graph_module, inputs_of(case, 11))


def pairs_of(case: Case, *mistakes: str) -> dict[fx.Node, fx.Node]:
    """Each node of the case's graph that may go, and the earlier one that stands in for it, with these mistakes."""
    return Merging(original_of(case).graph_module, seen_of(case), *mistakes).run()


def solved(case: Case, *mistakes: str) -> fx.GraphModule:
    """The case's graph, merged by the judge, with these mistakes."""
    return merged(original_of(case).graph_module, names_of(pairs_of(case, *mistakes)))


Counted = Counter[tuple[str, Any]]


def counted(graph_module: fx.GraphModule) -> Counted:
    """How often the graph does each thing."""
    return Counter((node.op, node.target) for node in all_nodes(graph_module) if is_operation(node))


def left_of(case: Case, *mistakes: str) -> Counted:
    """What is left when these mistakes are made."""
    gone = Counter((node.op, node.target) for node in pairs_of(case, *mistakes))
    return counted(original_of(case).graph_module) - gone


def unread(graph_module: fx.GraphModule) -> Counted:
    """How often the graph does each thing of which nobody reads the result."""
    return Counter((node.op, node.target) for node in all_nodes(graph_module) if is_operation(node) and not node.users)


@once_a_case
def least(case: Case) -> int:
    """How many operations a careful elimination leaves."""
    return left_of(case).total()


@once_a_case
def too_little(case: Case) -> Mapping[str, Counted]:
    """What is left by the mistakes that merge too little."""
    return OnDemand(TOO_LITTLE, lambda name: left_of(case, name))


def shown_little(case: Case, names: Collection[str]) -> list[str]:
    """Which of some mistakes that merge too little leave more than needed."""
    wanted = left_of(case)
    return [name for name in names if too_little(case)[name] != wanted]


@once_a_case
def too_much(case: Case) -> dict[str, dict[str, Any]]:
    """What a caller sees of what the mistakes make that merge too much, where it is something else."""
    original = original_of(case)
    seen = {name: own_behaviour(solved(case, name), original.calls) for name in WRONG}
    return {name: found for name, found in seen.items() if first_difference(original.behaviour, found)}


@once_a_case
def _shows(case: Case) -> bool:
    """Whether the mistake that the case is there for makes a difference in it."""
    right, made = original_of(case), solved(case, BY_TRAP[case.parameters["trap"]])
    return bool(first_difference(right.behaviour, own_behaviour(made, right.calls)))


def shown_much(case: Case, names: Collection[str]) -> list[str]:
    """Which of some mistakes is the one that the case is there for, if it makes a difference in it."""
    return [name for name in names if name == BY_TRAP.get(case.parameters["trap"]) and _shows(case)]

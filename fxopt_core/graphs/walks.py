"""Nodes that hang together: those in an argument, those that are reached, and stretches of a graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, TypeVar

from torch import fx

T = TypeVar("T", bound=Hashable)


def nodes_in(argument: Any) -> list[fx.Node]:
    """The nodes in an argument, however deep."""
    found: list[fx.Node] = []
    fx.node.map_arg(argument, found.append)
    return found


def reached(starts: Iterable[T], onward: Callable[[T], Iterable[T]]) -> set[T]:
    """All that is reached from the starts, themselves included.

    Args:
        starts: nodes, for one.
        onward: what is reached from one of them in one step.
    """
    found = set(starts)
    pending = list(found)
    while pending:
        new = [one for one in onward(pending.pop()) if one not in found]
        found.update(new)
        pending += new
    return found


def inputs_of(nodes: Collection[fx.Node]) -> list[fx.Node]:
    """What a stretch of a graph is computed from, each node once."""
    own = set(nodes)
    return list(dict.fromkeys(source for node in nodes for source in node.all_input_nodes if source not in own))


def graph_of(nodes: Iterable[fx.Node], inputs: Iterable[fx.Node], output: Any) -> tuple[fx.Graph, list[fx.Node]]:
    """A stretch of a graph as a graph of its own, and the copies of its nodes in order.

    Args:
        nodes: the stretch, in order.
        inputs: what it is computed from: the placeholders of the new graph.
        output: what the new graph returns: nodes of the stretch, in whatever container.
    """
    graph = fx.Graph()
    copies = {source: graph.placeholder(source.name) for source in inputs}
    made = [copies.setdefault(node, graph.node_copy(node, copies.__getitem__)) for node in nodes]
    graph.output(fx.node.map_arg(output, copies.__getitem__))
    return graph, made

"""The costs of a whole graph, node by node and summed up in groups: data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import fx

from fxopt_core.costs.counting import Cost
from fxopt_core.display import Displayable

BY = ("node", "module", "operation")
"""How nodes can be grouped."""

MOST_MODULES = 40
"""So many rows are read as a whole."""


@dataclass(frozen=True)
class NodeCost:
    """What one node of a graph costs.

    Attributes:
        name: of the node in its graph.
        operation: what it does, such as `linear`.
        module: path of the module that it comes from, such as `("layers", "0")`; empty at the top level.
        cost: FLOPs and bytes.
        dtype: in which its FLOPs are computed; `None` where it has none.
        parameters: names of the parameters that it reads.
        live_bytes: memory of all values made by the graph that are alive while it runs.
    """

    name: str
    operation: str
    module: tuple[str, ...]
    cost: Cost
    dtype: torch.dtype | None
    parameters: tuple[str, ...]
    live_bytes: int


@dataclass(frozen=True)
class Group:
    """Nodes that are summed up: those of a module or of an operation."""

    name: str
    nodes: tuple[NodeCost, ...]

    @cached_property
    def cost(self) -> Cost:
        """Of all nodes together."""
        return sum((node.cost for node in self.nodes), Cost())

    def parameters(self, elements: Mapping[str, int]) -> int:
        """How many numbers the parameters hold that the nodes read, each parameter once."""
        return sum(elements[name] for name in {name for node in self.nodes for name in node.parameters})


@dataclass(frozen=True)
class Analysis(Displayable):
    """What one run of a graph costs. For what counts as a FLOP and as a byte, see `Cost`.

    Attributes:
        nodes: the calls of the graph in order.
        parameter_elements: of each parameter that the graph reads, how many numbers it holds. Tied parameters are one.
        held_bytes: memory of what the graph reads but does not make: inputs, parameters, buffers, constants.
        graph: the graph itself.
        values: what each node computes, on fake tensors.
    """

    nodes: tuple[NodeCost, ...]
    parameter_elements: Mapping[str, int]
    held_bytes: int
    graph: fx.Graph = field(compare=False, repr=False)
    values: Mapping[fx.Node, Any] = field(compare=False, repr=False)

    @cached_property
    def total(self) -> Cost:
        """Of all nodes together."""
        return sum((node.cost for node in self.nodes), Cost())

    @property
    def parameters(self) -> int:
        """How many numbers the parameters hold that the graph reads."""
        return sum(self.parameter_elements.values())

    @property
    def peak(self) -> NodeCost:
        """The first node at which the values made by the graph take most memory (`peak.live_bytes`)."""
        return max(self.nodes, key=lambda node: node.live_bytes)

    def grouped(self, by: str, depth: int | None = None) -> list[Group]:
        """The nodes by `node`, `operation` or `module`: in order, operations by their bytes, most first.

        Args:
            by: one of `BY`.
            depth: of a module's path so many names are kept: deeper modules count to the one above. `None` keeps as
                many as gives at most 40 modules.

        Raises:
            ValueError: `by` is another word.
        """
        if by not in BY:
            raise ValueError(f"by is {by!r}; expected one of {', '.join(BY)}.")
        groups: dict[str, list[NodeCost]] = {}
        for node in self.nodes:
            path = ".".join(node.module[:depth]) or "(top)"
            keys = {"node": node.name, "operation": node.operation, "module": path}
            groups.setdefault(keys[by], []).append(node)
        deepest = max((len(node.module) for node in self.nodes), default=0)
        if by == "module" and depth is None and len(groups) > MOST_MODULES:
            fitting = (self.grouped(by, smaller) for smaller in range(deepest - 1, 1, -1))
            return next((found for found in fitting if len(found) <= MOST_MODULES), self.grouped(by, 1))
        found = [Group(name, tuple(members)) for name, members in groups.items()]
        return sorted(found, key=lambda group: -group.cost.bytes) if by == "operation" else found

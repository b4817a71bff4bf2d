"""The costs of a whole graph, node by node: data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import fx

from fxopt_core.costs.counting import Cost
from fxopt_core.display import Displayable


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
        """The first node at which the values made by the graph take most memory (`peak.live_bytes`).

        Of a graph that computes nothing, one without a name, which takes none.
        """
        nothing = NodeCost("", "", (), Cost(), None, (), 0)
        return max(self.nodes, key=lambda node: node.live_bytes, default=nothing)

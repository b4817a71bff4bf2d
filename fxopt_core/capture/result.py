"""What a capture gives: the graphs, and everything that a reader must know to trust them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from torch import fx

from fxopt_core.capture.breaks import GraphBreak
from fxopt_core.capture.guards import Guard
from fxopt_core.capture.partition import Partition
from fxopt_core.graphs.names import count_operations


@dataclass(frozen=True)
class Captured:
    """The graphs of one call of a model.

    Attributes:
        partitions: the graphs with what their inputs stand for and the values of the example call.
        method: how they were captured: `dynamo`, `symbolic_trace`, `export` or `aot`.
        level: the dialect: `torch` (functions and methods as the user writes them) or `aten` (operator overloads).
        graph_breaks: where and why Dynamo had to end a graph.
        guards: under which conditions the graphs may be used again.
        caveats: what the graphs do not say about the model, in sentences.
    """

    partitions: tuple[Partition, ...]
    method: str
    level: str
    graph_breaks: tuple[GraphBreak, ...] = ()
    guards: tuple[Guard, ...] = ()
    caveats: tuple[str, ...] = ()

    @property
    def graphs(self) -> tuple[fx.GraphModule, ...]:
        """The graphs in the order of capture."""
        return tuple(partition.graph_module for partition in self.partitions)

    def operation_counts(self) -> Counter[str]:
        """How often each operation occurs over all partitions. Inputs, attributes and outputs do not count."""
        return sum(self.operation_counts_by_partition(), Counter())

    def operation_counts_by_partition(self) -> list[Counter[str]]:
        """How often each operation occurs, one counter a partition."""
        return [count_operations(graph) for graph in self.graphs]

"""How long a graph takes at best on given hardware: the roofline model.

A node takes at least the time of its FLOPs at the peak rate, and at least the time of its bytes at the bandwidth of
memory; the longer of both is the estimate. Source: Williams, Waterman and Patterson, "Roofline: an insightful visual
performance model for multicore architectures", Communications of the ACM 52(4), 2009.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from fxopt_core.costs.report import Analysis, NodeCost
from fxopt_core.display import Displayable
from fxopt_workbench.hardware.hardware import Hardware
from fxopt_workbench.results.costs import HEADINGS, cells, costly, notes
from fxopt_workbench.structure.groups import Group
from fxopt_workbench.tables import Table, format_seconds

COMPUTE = "compute"
MEMORY = "memory"


@dataclass(frozen=True)
class NodeEstimate:
    """The least time of one node.

    Attributes:
        node: what it costs.
        compute_seconds: its FLOPs at the peak rate of their dtype.
        memory_seconds: its bytes at the bandwidth of memory.
    """

    node: NodeCost
    compute_seconds: float
    memory_seconds: float

    @property
    def seconds(self) -> float:
        """The longer of both; `nan` where FLOPs are not counted."""
        return math.nan if self.node.cost.uncounted else max(self.compute_seconds, self.memory_seconds)

    @property
    def bound(self) -> str:
        """What the node waits for: `compute` or `memory`; empty where it has no time, or none that anybody knows."""
        if not self.seconds > 0:
            return ""
        return COMPUTE if self.compute_seconds > self.memory_seconds else MEMORY


@dataclass(frozen=True)
class Estimate(Displayable):
    """The least time of a graph on one device, its nodes one after another.

    What really runs takes longer: kernels stay below the peak and cost time to start. It may be faster where values
    stay in a cache, or where a compiler fuses nodes so that values never reach memory. A node with FLOPs that are not
    counted has no time, and so the graph has none.

    Attributes:
        analysis: what the nodes cost.
        hardware: the device.
        nodes: the nodes in order.
        tf32: whether `float32` operands are rounded to TensorFloat-32, where the device has it.
    """

    analysis: Analysis
    hardware: Hardware
    nodes: tuple[NodeEstimate, ...]
    tf32: bool

    @cached_property
    def seconds(self) -> float:
        """Of all nodes together; `nan` where a node has FLOPs that are not counted (`analysis.total.uncounted`)."""
        return sum(node.seconds for node in self.nodes)

    @cached_property
    def by_name(self) -> dict[str, NodeEstimate]:
        """The nodes by their names."""
        return {estimated.node.name: estimated for estimated in self.nodes}

    def tables(self) -> tuple[Table, ...]:
        """What a notebook shows: `table()`."""
        return (self.table(),)

    def table(self, by: str = "operation") -> Table:
        """Costs and times, with a row for each group of nodes that costs something."""
        elements = self.analysis.parameter_elements
        found = costly(self.analysis, by)
        rows = [(group.name, *cells(group, elements), *self._cells(group)) for group in found]
        told = f"at least {format_seconds(self.seconds)}, {self.share(COMPUTE):.0%} of it in nodes bound by compute"
        if unknown := self.analysis.total.uncounted:
            told = f"no time, since nobody knows the FLOPs of {', '.join(unknown)}"
        note = f"{self.hardware.description}: {told}. Source: {self.hardware.source}."
        return Table("", (by, *HEADINGS, "time", "part", "bound"), rows, (*notes(self.analysis), note), ("bound",))

    def _cells(self, group: Group) -> tuple[str, str, str]:
        nodes = [self.by_name[node.name] for node in group.nodes]
        seconds = sum(node.seconds for node in nodes)
        computing = sum(node.seconds for node in nodes if node.bound == COMPUTE)
        bound = "" if not seconds > 0 else COMPUTE if computing > seconds / 2 else MEMORY
        return format_seconds(seconds), f"{seconds / self.seconds:.0%}" if self.seconds > 0 else "", bound

    def share(self, bound: str) -> float:
        """The part of the time, from 0 to 1, that nodes bound by `compute` or by `memory` take; `nan` with the time."""
        return sum(node.seconds for node in self.nodes if node.bound == bound) / self.seconds if self.seconds else 0.0


def estimate(analysis: Analysis, hardware: Hardware, *, tf32: bool = False) -> Estimate:
    """The roofline estimate of each node.

    Raises:
        ValueError: no rate is known for the dtype of a node with FLOPs.
    """

    def seconds(node: NodeCost) -> NodeEstimate:
        rate = hardware.rate(str(node.dtype).removeprefix("torch."), tf32=tf32) if node.dtype else float("inf")
        return NodeEstimate(node, node.cost.flops / rate, node.cost.bytes / hardware.bandwidth)

    return Estimate(analysis, hardware, tuple(seconds(node) for node in analysis.nodes), tf32)

"""The costs of a whole graph: summed, as tables and as text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch

from fxopt_core.benchmark.report import format_bytes
from fxopt_core.costs.counting import Cost
from fxopt_workbench.hardware.parts import Block, Part
from fxopt_workbench.tables import Sheet, Shown, format_count

BY = ("node", "module", "operation", "stage")
"""How nodes can be grouped."""

MOST_MODULES = 40
"""So many rows are read as a whole."""

HEADINGS = ("nodes", "parameters", "FLOPs", "read", "written", "FLOPs/byte")


@dataclass(frozen=True)
class NodeCost:
    """What one node of a graph costs.

    Attributes:
        name: of the node in its graph.
        operation: what it does, such as `linear`.
        module: path of the module that it comes from, such as `("layers", "0")`; empty at the top level.
        stage: name of the stage that it belongs to, such as `backbone`.
        shape: of its value, as text.
        cost: FLOPs and bytes.
        dtype: in which its FLOPs are computed; `None` where it has none.
        parameters: names of the parameters that it reads.
        live_bytes: memory of all values made by the graph that are alive while it runs.
    """

    name: str
    operation: str
    module: tuple[str, ...]
    stage: str
    shape: str
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

    def cells(self, elements: Mapping[str, int]) -> tuple[str, ...]:
        """The figures of `HEADINGS`."""
        cost = self.cost
        return (
            str(len(self.nodes)),
            format_count(self.parameters(elements)),
            format_count(cost.flops) + ("+?" if cost.uncounted else ""),
            format_bytes(cost.bytes_read),
            format_bytes(cost.bytes_written),
            format_count(cost.intensity),
        )


@dataclass(frozen=True)
class Analysis(Shown):
    """What one run of a graph costs. For what counts as a FLOP and as a byte, see `Cost`.

    Attributes:
        nodes: the calls of the graph in order.
        parameter_elements: of each parameter that the graph reads, how many numbers it holds. Tied parameters are one.
        held_bytes: memory of what the graph reads but does not make: inputs, parameters, buffers, constants.
        parts: the stages in order.
        blocks: the blocks that come several times, in order.
    """

    nodes: tuple[NodeCost, ...]
    parameter_elements: Mapping[str, int]
    held_bytes: int
    parts: tuple[Part, ...]
    blocks: tuple[Block, ...]

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
        """The nodes by `node`, `operation`, `module` or `stage`: in order, operations by their bytes, most first.

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
            keys = {"node": node.name, "operation": node.operation, "module": path, "stage": node.stage}
            groups.setdefault(keys[by], []).append(node)
        deepest = max((len(node.module) for node in self.nodes), default=0)
        if by == "module" and depth is None and len(groups) > MOST_MODULES:
            fitting = (self.grouped(by, smaller) for smaller in range(deepest - 1, 1, -1))
            return next((found for found in fitting if len(found) <= MOST_MODULES), self.grouped(by, 1))
        found = [Group(name, tuple(members)) for name, members in groups.items()]
        return sorted(found, key=lambda group: -group.cost.bytes) if by == "operation" else found

    def sheets(self) -> tuple[Sheet, ...]:
        """`sheet()`, as a notebook shows it."""
        return (self.sheet(),)

    def sheet(self, by: str = "operation") -> Sheet:
        """A table with a row for each group of `grouped(by)` that costs something."""
        rows = [(group.name, *group.cells(self.parameter_elements)) for group in self.costly(by)]
        return Sheet("", (by, *HEADINGS), rows, self.notes())

    def costly(self, by: str) -> list[Group]:
        """The groups of `grouped(by)` that cost something, and last the whole."""
        costly = [group for group in self.grouped(by) if group.cost.bytes or group.cost.uncounted]
        return [*costly, Group("all", self.nodes)]

    def notes(self) -> tuple[str, ...]:
        """What the figures mean, and what they leave out."""
        peak = self.peak
        notes = [
            f"{format_count(self.parameters)} parameters ({self.parameters}); a multiply-add counts as two FLOPs, and "
            "only matrix products, convolutions and attention count. Nodes that move nothing have no row.",
            f"Memory: {format_bytes(self.held_bytes)} held (parameters, buffers, inputs); at most "
            f"{format_bytes(peak.live_bytes)} of values at once, at {peak.name} ({'.'.join(peak.module) or 'top'}).",
        ]
        if self.total.uncounted:
            notes.append(f"No formula, so FLOPs not counted: {', '.join(self.total.uncounted)}.")
        return tuple(notes)

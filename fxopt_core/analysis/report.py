"""The costs of a whole graph: summed, as tables and as text."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import torch

from fxopt_core.analysis.counting import Cost
from fxopt_core.analysis.tables import Sheet, format_count
from fxopt_core.benchmark.report import format_bytes

BY = ("node", "module", "operation")
"""How nodes can be grouped."""

MOST_ROWS = 40
"""Modules that are shown at most; deeper ones count to the one above."""

HEADINGS = ("nodes", "parameters", "FLOPs", "read", "written", "FLOPs/byte")


@dataclass(frozen=True)
class NodeCost:
    """What one node of a graph costs.

    Attributes:
        name: of the node in its graph.
        operation: what it does, such as `linear`.
        module: path of the module that it comes from, such as `("layers", "0")`; empty at the top level.
        module_class: the class of that module; empty where the graph does not say.
        shape: of its value, as text.
        cost: FLOPs and bytes.
        dtype: in which its FLOPs are computed; `None` where it has none.
        parameters: names of the parameters that it reads.
        live_bytes: memory of all values made by the graph that are alive while it runs.
    """

    name: str
    operation: str
    module: tuple[str, ...]
    module_class: str
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
class Analysis:
    """What one run of a graph costs. For what counts as a FLOP and as a byte, see `Cost`.

    Attributes:
        nodes: the calls of the graph in order.
        parameter_elements: of each parameter that the graph reads, how many numbers it holds. Tied parameters are one.
        held_bytes: memory of what the graph reads but does not make: inputs, parameters, buffers, constants.
    """

    nodes: tuple[NodeCost, ...]
    parameter_elements: Mapping[str, int]
    held_bytes: int

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

    def grouped(self, by: str) -> list[Group]:
        """The nodes by `node`, `operation` or `module`; modules as deep as gives at most 40 rows.

        Raises:
            ValueError: another word.
        """
        if by == "node":
            return [Group(node.name, (node,)) for node in self.nodes]
        if by == "operation":
            return self.by_operation()
        if by != "module":
            raise ValueError(f"by is {by!r}; expected one of {', '.join(BY)}.")
        deepest = max((len(node.module) for node in self.nodes), default=1)
        return next(
            groups
            for depth in range(max(deepest, 1), 0, -1)
            if len(groups := self.by_module(depth)) <= MOST_ROWS or depth == 1
        )

    def by_operation(self) -> list[Group]:
        """The nodes by what they do, those with most bytes first."""
        return sorted(_grouped(self.nodes, lambda node: node.operation), key=lambda group: -group.cost.bytes)

    def by_module(self, depth: int | None = None) -> list[Group]:
        """The nodes by module, in order of the first node.

        Args:
            depth: names of a path that are kept, so that deeper modules count to the one above; `None` keeps all.
        """
        return _grouped(self.nodes, lambda node: ".".join(node.module[:depth]) or "(top)")

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

    def document(self) -> dict[str, Any]:
        """Everything as plain data for JSON; bytes and FLOPs."""
        nodes = [
            {
                **asdict(node.cost),
                "name": node.name,
                "operation": node.operation,
                "module": ".".join(node.module),
                "shape": node.shape,
                "dtype": str(node.dtype).removeprefix("torch.") if node.dtype else None,
                "parameters": node.parameters,
                "live_bytes": node.live_bytes,
            }
            for node in self.nodes
        ]
        return {
            "total": asdict(self.total),
            "parameters": self.parameters,
            "held_bytes": self.held_bytes,
            "peak": {"node": self.peak.name, "bytes": self.peak.live_bytes},
            "nodes": nodes,
        }

    def __str__(self) -> str:
        return str(self.sheet())

    def _repr_html_(self) -> str:
        return self.sheet()._repr_html_()


def _grouped(nodes: Iterable[NodeCost], key: Callable[[NodeCost], str]) -> list[Group]:
    groups: dict[Hashable, list[NodeCost]] = {}
    for node in nodes:
        groups.setdefault(key(node), []).append(node)
    return [Group(str(name), tuple(members)) for name, members in groups.items()]

"""The costs of a graph summed up in groups: by node, by module, by operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from fxopt_core.costs import Analysis, Cost, NodeCost

BY = ("node", "module", "operation")
"""How nodes can be grouped."""

MOST_MODULES = 40
"""So many rows are read as a whole."""


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


def grouped(analysis: Analysis, by: str, depth: int | None = None) -> list[Group]:
    """The nodes by `node`, `operation` or `module`: in order, operations by their bytes, most first.

    Args:
        analysis: of a graph.
        by: one of `BY`.
        depth: of a module's path so many names are kept: deeper modules count to the one above. `None` keeps as
            many as gives at most 40 modules.

    Raises:
        ValueError: `by` is another word.
    """
    if by not in BY:
        raise ValueError(f"by is {by!r}; expected one of {', '.join(BY)}.")
    groups: dict[str, list[NodeCost]] = {}
    for node in analysis.nodes:
        path = ".".join(node.module[:depth]) or "(top)"
        keys = {"node": node.name, "operation": node.operation, "module": path}
        groups.setdefault(keys[by], []).append(node)
    deepest = max((len(node.module) for node in analysis.nodes), default=0)
    if by == "module" and depth is None and len(groups) > MOST_MODULES:
        fitting = (grouped(analysis, by, smaller) for smaller in range(deepest - 1, 1, -1))
        return next((found for found in fitting if len(found) <= MOST_MODULES), grouped(analysis, by, 1))
    found = [Group(name, tuple(members)) for name, members in groups.items()]
    return sorted(found, key=lambda group: -group.cost.bytes) if by == "operation" else found

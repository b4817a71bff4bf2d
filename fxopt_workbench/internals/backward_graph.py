"""The graph that autograd recorded behind a tensor: as data, as text and as a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.graph import get_gradient_edge

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_NODES = 60
"""Nodes of a graph that can be drawn."""


@dataclass(frozen=True)
class Recorded:
    """A node of the graph.

    Attributes:
        node: autograd's own object; `node(*gradients)` runs it.
        name: what it computes in the backward pass, without its namespace.
        sequence: when it was recorded, counted by the thread; leaves have the highest number there is.
        edges: for each of its results the place in the list of the node that gets it, and the number of that node's
            input.
    """

    node: Any
    name: str
    sequence: int
    edges: tuple[tuple[int, int], ...]

    @property
    def is_leaf(self) -> bool:
        """Whether it writes a gradient into a tensor's `.grad`."""
        return self.name == "AccumulateGrad"


def recorded(*tensors: torch.Tensor) -> list[Recorded]:
    """Every node behind some tensors, those nearest to them first.

    Raises:
        ValueError: no tensor is given, or one of them has no graph and is no leaf that asks for gradients.
    """
    if not tensors:
        raise ValueError("no tensor is given, so there is no graph to walk over")
    for number, tensor in enumerate(tensors):
        if not tensor.requires_grad:
            raise ValueError(
                f"tensor {number} does not require gradients, so nothing was recorded for it; set requires_grad=True "
                "on what it is computed from, and compute it outside torch.no_grad()"
            )
    nodes = list(dict.fromkeys(get_gradient_edge(tensor).node for tensor in tensors))
    places = {node: place for place, node in enumerate(nodes)}
    for node in nodes:
        for following, _ in node.next_functions:
            if following is not None and following not in places:
                places[following] = len(nodes)
                nodes.append(following)
    return [
        Recorded(
            node,
            str(node.name()).rpartition("::")[2],
            int(node._sequence_nr()),
            tuple((places[following], number) for following, number in node.next_functions if following is not None),
        )
        for node in nodes
    ]


def in_words(nodes: Sequence[Recorded]) -> str:
    """The graph as text: a line for each node, with where its results go."""
    lines = []
    for place, one in enumerate(nodes):
        when = "a leaf" if one.is_leaf else f"sequence number {one.sequence}"
        goes = ", ".join(f"{nodes[to].name} ({to})" for to, _ in one.edges)
        lines.append(f"({place}) {one.name}, {when}" + (f" -> {goes}" if goes else ""))
    return "\n".join(lines)


def draw(nodes: Sequence[Recorded], title: str = "") -> Figure:
    """The graph as a picture: what runs first in the backward pass stands on top, leaves are drawn as boxes.

    Raises:
        ValueError: there are no nodes, or more than `MOST_NODES`.
    """
    if not 0 < len(nodes) <= MOST_NODES:
        raise ValueError(f"a picture shows between 1 and {MOST_NODES} nodes, not {len(nodes)}")
    from matplotlib import pyplot

    depth = [0] * len(nodes)
    # A node stands below all that lead to it; sequence numbers are an order in which that can be computed.
    for place in sorted(range(len(nodes)), key=lambda one: (nodes[one].is_leaf, -nodes[one].sequence)):
        for to, _ in nodes[place].edges:
            depth[to] = max(depth[to], depth[place] + 1)
    rows: dict[int, list[int]] = {}
    for place, level in enumerate(depth):
        rows.setdefault(level, []).append(place)
    at = {place: (index - (len(row) - 1) / 2, -level) for level, row in rows.items() for index, place in enumerate(row)}
    wide = max(len(row) for row in rows.values())
    figure, axes = pyplot.subplots(figsize=(max(4.0, 2.4 * wide), 0.8 * len(rows) + 0.4), layout="constrained")
    boxes = []
    for place, one in enumerate(nodes):
        short = one.name.removesuffix("Backward0")
        label = short if one.is_leaf else f"{short} {one.sequence}"
        box = {"boxstyle": "square" if one.is_leaf else "round", "facecolor": "white", "edgecolor": "tab:blue"}
        text = axes.text(*at[place], label, ha="center", va="center", bbox=box, color="black")
        boxes.append(text.get_bbox_patch())
    for place, one in enumerate(nodes):
        arrived: Counter[int] = Counter()
        for to, _ in one.edges:
            # Around what stands between, on the outer side; a second edge to the same node beside the first.
            outer = -1.0 if at[place][0] > 0 else 1.0
            bend = outer * (0.4 * (depth[to] - depth[place] > 1) + 0.3 * arrived[to])
            arrived[to] += 1
            # Cut off where the boxes end, however wide a name makes them, so that no head is hidden.
            arrow: dict[str, Any] = {"arrowstyle": "->", "color": "gray", "patchA": boxes[place], "patchB": boxes[to]}
            arrow |= {"shrinkA": 2, "shrinkB": 2, "connectionstyle": f"arc3,rad={bend}"}
            axes.annotate("", xy=at[to], xytext=at[place], arrowprops=arrow)
    axes.set(xlim=(-wide / 2 - 0.2, wide / 2 + 0.2), ylim=(-len(rows) + 0.4, 0.6), title=title)
    axes.axis("off")
    pyplot.close(figure)
    return figure

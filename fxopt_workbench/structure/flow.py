"""How images flow through a graph: which nodes depend on them, at which resolution, and past which points all must go.

Words used here: a *map* is a tensor `[batch, channels, height, width]` that still has the layout of the image; its
*grid* is (height, width). An attention's `[batch, heads, queries, keys]` has four dimensions too and is no map, so maps
are followed from operator to operator and not told by their shapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import fx
from torch.utils._pytree import tree_leaves

from fxopt_core.graphs.aliases import OUTSIDE, Storages
from fxopt_core.graphs.effects import Storage
from fxopt_core.graphs.names import is_operation, operation_name
from fxopt_core.graphs.walks import reached

Grid = tuple[int, int]

_WINDOWED = re.compile(r"conv|pool|upsample|interpolate|pixel_(un)?shuffle|(^|[._])pad\b|constant_pad", re.IGNORECASE)
_CONVOLUTION = re.compile(r"conv", re.IGNORECASE)
_ATTENTION = re.compile(r"attention", re.IGNORECASE)
_SOFTMAX = re.compile(r"softmax", re.IGNORECASE)
_PRODUCT = re.compile(r"(^|[.:_])(b?mm|matmul|einsum|baddbmm)(\.|$)", re.IGNORECASE)
_MOST_STEPS = 6
"""Between a softmax and the product with its values: dropout, conversions, changes of layout."""


def values_in_meta(graph: fx.Graph) -> dict[fx.Node, Any]:
    """What each node computes in the example, as `torch.export`, Dynamo and AOTAutograd leave it in `node.meta`."""
    return {node: node.meta.get("val", node.meta.get("example_value")) for node in graph.nodes}


class Flow:
    """The part of a graph that depends on its images and on which its outputs depend.

    Attributes:
        images: the placeholders that a two-dimensional convolution reads as its map.
        nodes: the calls that depend on an image and that an output depends on, in the order of the graph.
        grids: of those that are maps (or several maps of one grid, as from `chunk`).
        windowed: convolutions, poolings and changes of resolution, in order.
        reads: what each node depends on at once: its operands, and who last wrote the storage of one.
        readers: the reverse.
        output: the node of the graph's outputs.
    """

    def __init__(self, graph: fx.Graph, values: Mapping[fx.Node, Any]) -> None:
        self.graph, self.values = graph, values
        self.output = next(node for node in reversed(graph.nodes) if node.op == "output")
        self.place = {node: place for place, node in enumerate(graph.nodes)}
        self.reads = _reads(graph)
        self.readers: dict[fx.Node, list[fx.Node]] = {node: [] for node in graph.nodes}
        for node, sources in self.reads.items():
            for source in sources:
                self.readers[source].append(node)
        self.live = self.before([self.output])
        self.images = self._images(graph)
        dependent = self.after(self.images)
        self.nodes = [node for node in graph.nodes if node in dependent and node in self.live and is_operation(node)]
        self._members = set(self.nodes)
        self.grids = {node: self._grid(node) for node in self.images}
        self.windowed: list[fx.Node] = []
        for node in self.nodes:
            self._look(node)

    def shape(self, node: fx.Node) -> tuple[int, ...]:
        """Of its value, or of the first tensor where it has several; sizes that are symbols as in the example."""
        tensors = [leaf for leaf in tree_leaves(self.values.get(node)) if isinstance(leaf, torch.Tensor)]
        sizes = tensors[0].shape if tensors else ()
        return tuple(size.node.hint if isinstance(size, torch.SymInt) else size for size in sizes)

    def maps_read(self, node: fx.Node) -> list[fx.Node]:
        """The maps among a node's operands."""
        return [source for source in node.all_input_nodes if source in self.grids]

    def changes_grid(self, node: fx.Node) -> bool:
        """Whether a map is computed from maps of other grids alone."""
        read = self.maps_read(node)
        return node in self.grids and bool(read) and all(self.grids[one] != self.grids[node] for one in read)

    def enlarges(self, node: fx.Node) -> bool:
        """Whether a map is at least half as wide and high again as all that it is computed from, images apart."""
        if not self.changes_grid(node) or set(self.images) & set(self.maps_read(node)):
            return False
        read = [self.grids[one] for one in self.maps_read(node)]
        tall, wide = self.grids[node]
        return all(2 * tall >= 3 * height and 2 * wide >= 3 * width for height, width in read)

    def users(self, node: fx.Node) -> list[fx.Node]:
        """Who depends on a node at once, among `nodes` and the output."""
        return [user for user in self.readers[node] if user in self._members or user is self.output]

    def signature(self, node: fx.Node) -> tuple[Any, ...]:
        """What a node computes apart from sizes: its operation, and of a convolution how large its window is."""
        name = operation_name(node)
        weight = node.all_input_nodes[1:2] if _CONVOLUTION.search(name) else []
        return (name, *(self.shape(one)[2:] for one in weight))

    def attentions(self) -> list[fx.Node]:
        """The nodes where attention takes place: an operator for it, or a softmax that weighs a matrix product."""
        return [node for node in self.live_calls() if _is_attention(node)]

    def live_calls(self) -> list[fx.Node]:
        """The calls that an output depends on, in order; they need not depend on an image."""
        return sorted(filter(is_operation, self.live), key=self.place.__getitem__)

    def before(self, nodes: Iterable[fx.Node]) -> set[fx.Node]:
        """These nodes and all that they depend on."""
        return reached(nodes, self.reads.__getitem__)

    def after(self, nodes: Iterable[fx.Node], among: set[fx.Node] | None = None) -> set[fx.Node]:
        """These nodes and all that depends on them, but the output; with `among`, through such nodes alone."""
        allowed = (lambda user: user.op != "output") if among is None else among.__contains__
        return reached(nodes, lambda node: filter(allowed, self.readers[node]))

    def gates(self, start: fx.Node) -> list[fx.Node]:
        """The nodes that every path from `start` to the output goes through, first `start`, without the output."""
        # Immediate post-dominators; in a graph without cycles one sweep from the end finds them. Source: Cooper,
        # Harvey, Kennedy, A Simple, Fast Dominance Algorithm, 2001.
        next_gate: dict[fx.Node, fx.Node] = {}
        depth = {self.output: 0}
        for node in reversed([start, *(node for node in self.nodes if self.place[node] > self.place[start])]):
            users = self.users(node)
            gate = users[0]
            for user in users[1:]:
                while gate is not user:
                    if depth[gate] >= depth[user]:
                        gate = next_gate[gate]
                    else:
                        user = next_gate[user]
            next_gate[node], depth[node] = gate, depth[gate] + 1
        found = [start]
        while next_gate[found[-1]] is not self.output:
            found.append(next_gate[found[-1]])
        return found

    def _images(self, graph: fx.Graph) -> list[fx.Node]:
        """Placeholders with four dimensions in the first operand of the first convolution of two dimensions."""
        for node in graph.nodes:
            if is_operation(node) and _CONVOLUTION.search(operation_name(node)) and len(self.shape(node)) == 4:
                sources = self.before(node.all_input_nodes[:1])
                return [one for one in sources if one.op == "placeholder" and len(self.shape(one)) == 4]
        return []

    def _grid(self, node: fx.Node) -> Grid:
        height, width = self.shape(node)[-2:]
        return height, width

    def _look(self, node: fx.Node) -> None:
        """Note whether a node is a map, whose operands have been looked at."""
        if len(self.shape(node)) != 4:
            return
        read = self.maps_read(node)
        if _WINDOWED.search(operation_name(node)):
            first = node.all_input_nodes[0]
            if _CONVOLUTION.search(operation_name(node)) and first in self._members and self._like_image(first):
                self.grids.setdefault(first, self._grid(first))
                read = self.maps_read(node)
            if read:
                self.grids[node] = self._grid(node)
                self.windowed.append(node)
        elif any(self.grids[one] == self._grid(node) for one in read):
            self.grids[node] = self._grid(node)

    def _like_image(self, node: fx.Node) -> bool:
        """Whether the shape has the image's proportions, up to the rounding of five halvings."""
        heights, widths = (self.shape(self.images[0])[place] / self.shape(node)[place] for place in (-2, -1))
        return len(self.shape(node)) == 4 and 0.8 <= heights / widths <= 1.25


def _reads(graph: fx.Graph) -> dict[fx.Node, list[fx.Node]]:
    storages = Storages(graph)
    outside = storages.of(OUTSIDE)
    writers: dict[Storage, fx.Node] = {}
    reads: dict[fx.Node, list[fx.Node]] = {}
    for node in graph.nodes:
        sources = node.all_input_nodes
        last = [writers[place] for place in map(storages.of, sources) if place in writers] if writers else []
        reads[node] = list(dict.fromkeys((*sources, *last)))
        # Everything that comes from outside may be one storage: who reads a weight does not wait for each statistic.
        writers |= {place: node for place in map(storages.of, storages.effects(node).writes) if place != outside}
    return reads


def _is_attention(node: fx.Node) -> bool:
    name = operation_name(node)
    if _ATTENTION.search(name):
        return True
    reached = [node] if _SOFTMAX.search(name) else []
    for _ in range(_MOST_STEPS):
        reached = [user for one in reached for user in one.users if is_operation(user)]
        if any(_PRODUCT.search(operation_name(user)) for user in reached):
            return True
        # What follows a sum or another product is no longer the weights.
        reached = [user for user in reached if len(user.all_input_nodes) == 1]
    return False

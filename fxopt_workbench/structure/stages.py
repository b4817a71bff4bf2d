"""The stages of an architecture, as far as a graph's shape tells them, in words that fit what it is.

A detector has a backbone, a neck and a head, a U-Net a contracting and an expanding path, a model of text a stack of
blocks.

Only operators, shapes and the edges between nodes are looked at. Where these do not decide, the stage is called
`unknown` and says why. The order of the rules:

1. No image (no placeholder that a two-dimensional convolution reads as its map): no resolutions, one stage.
2. A map is enlarged somewhere: a pyramid of resolutions, see `fxopt_workbench.structure.pyramid`.
3. Attention after the last convolution: what the tokens are projected from is the backbone, the rest a transformer.
4. Else a classifier: the head begins where the positions are pooled or flattened away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx

from fxopt_core.graphs.names import is_operation
from fxopt_workbench.structure.flow import Flow
from fxopt_workbench.structure.pyramid import Parts, pyramid
from fxopt_workbench.structure.repeats import find_repeats

UNKNOWN = "unknown"
UNUSED = "unused"


@dataclass(frozen=True)
class Stage:
    """A part of an architecture.

    Attributes:
        name: `backbone`, `neck`, `transformer`, `head`, `contracting path`, `expanding path`, `stack of blocks`,
            `whole`, `unknown` or `unused`.
        why: what in the graph says so.
        nodes: its calls, in the order of the graph.
        gives: those of them that other stages or the outputs read, one for each shape.
    """

    name: str
    why: str
    nodes: tuple[fx.Node, ...]
    gives: tuple[fx.Node, ...]


def find_stages(graph: fx.Graph, values: Mapping[fx.Node, Any]) -> tuple[Stage, ...]:
    """The stages of an architecture, which together hold each call of its graph once.

    Nodes that do not depend on an image (positions, folded weights) belong to the first stage that reads them.

    Args:
        graph: of the whole model.
        values: what each node computes: `values_in_meta(graph)`, or what an interpreter on fake tensors found.
    """
    flow = Flow(graph, values)
    parts = _parts(flow)
    homes = {node: place for place, (_, _, nodes) in enumerate(parts) for node in nodes}
    for node in reversed(flow.live_calls()):
        if node not in homes:
            homes[node] = min((homes[user] for user in flow.readers[node] if user in homes), default=len(parts) - 1)
    calls = [node for node in graph.nodes if is_operation(node)]
    parts.append((UNUSED, "No output depends on it, though it may write to a buffer or check something.", set()))
    found = []
    for place, (name, why, _) in enumerate(parts):
        members = tuple(node for node in calls if homes.get(node, len(parts) - 1) == place)
        if members:
            found.append(Stage(name, why, members, _gives(flow, members)))
    return tuple(found)


def _gives(flow: Flow, members: tuple[fx.Node, ...]) -> tuple[fx.Node, ...]:
    inside = set(members)
    read = (node for node in members if any(user not in inside and user in flow.live for user in flow.readers[node]))
    return tuple({flow.shape(node): node for node in read if flow.shape(node)}.values())


def _parts(flow: Flow) -> Parts:
    calls = set(flow.live_calls())
    if not flow.images:
        why = "It reads no image, so no change of resolution marks a stage."
        repeats = [one.copies for one in find_repeats(flow.graph, flow.values) if one.same]
        if not repeats:
            return [("whole", why, calls)]
        told = " and ".join(f"the same block of {len(copies[0])} nodes {len(copies)} times" for copies in repeats)
        return [("stack of blocks", f"It repeats {told}. {why}", calls)]
    apart = [node for node in flow.output.all_input_nodes if node in calls and node not in set(flow.nodes)]
    if flow.before(apart) & set(flow.attentions()):
        return [(UNKNOWN, "Some outputs do not depend on the image: a model of several kinds of input.", calls)]
    if any(flow.enlarges(node) for node in flow.nodes):
        parts, rest = pyramid(flow)
        return parts + _tail(flow, rest)
    after_maps = set(flow.attentions()) - flow.before(flow.windowed)
    if after_maps & set(flow.nodes):
        return _tokens(flow)
    return _classifier(flow)


def _tokens(flow: Flow) -> Parts:
    """A model whose image becomes tokens, one a position, and never a map again."""
    maps = [node for node in flow.nodes if node in flow.grids]
    projections = [node for node in flow.windowed if not any(user in flow.grids for user in flow.readers[node])]
    backbone = flow.before([source for node in projections for source in flow.maps_read(node)] or maps)
    backbone &= set(flow.nodes)
    rest = set(flow.nodes) - backbone
    if not backbone & set(flow.windowed):
        return _tail(flow, set(flow.nodes))
    why = "Convolutions on maps of the image, up to the projection of the last map into tokens."
    return [("backbone", why, backbone), *_tail(flow, rest)]


def _tail(flow: Flow, rest: set[fx.Node]) -> Parts:
    """What follows maps: a transformer, if there is attention, and the head that reads it; else a head."""
    attentions = [node for node in flow.attentions() if node in rest]
    if not attentions:
        return [("head", "What follows the neck at each level, and what reads that.", rest)] if rest else []
    gates = flow.gates(attentions[-1])
    body = flow.before(gates[-1:]) & rest
    why = f"{len(attentions)} times attention over tokens that come from the image."
    if body != rest:
        head = "What reads only the last value that all paths from the last attention to the outputs go through."
        return [("transformer", why, body), ("head", head, rest - body)]
    for gate in gates:
        if len(flow.shape(gate)) < 3:
            after = flow.after([gate]) & rest
            return [
                ("transformer", why, rest - after),
                ("head", "From where the tokens are reduced to one vector an image.", after),
            ]
    return [("transformer", why + " The outputs are its own values: there is no head.", rest)]


def _classifier(flow: Flow) -> Parts:
    """Convolutions, and after them something without positions."""
    nodes = set(flow.nodes)
    placed = flow.before(node for node in flow.nodes if flow.grids.get(node, (1, 1)) != (1, 1)) & nodes
    head = nodes - placed
    if not placed or not head:
        return [(UNKNOWN, "Nothing marks where a head begins: no map is enlarged, pooled away or flattened.", nodes)]
    levels = {flow.grids[source] for node in head for source in flow.maps_read(node) if source in placed}
    if len(levels) > 1:
        return [
            (UNKNOWN, f"Maps of {len(levels)} resolutions lead to the outputs, but never exchange anything.", nodes)
        ]
    return [
        ("backbone", "Maps of the image, each computed from finer ones or from its own grid.", placed),
        ("head", "From where the positions are pooled or flattened away.", head),
    ]

"""A pyramid of resolutions: where the backbone ends, where the neck ends, where the head begins."""

from __future__ import annotations

from collections.abc import Iterable

from torch import fx

from fxopt_workbench.structure.flow import Flow, Grid

Parts = list[tuple[str, str, set[fx.Node]]]
"""Name, reason and nodes of each part, first part first."""


def pyramid(flow: Flow) -> tuple[Parts, set[fx.Node]]:
    """Backbone and neck of a model that enlarges maps, and the nodes of its head.

    The backbone is what leads down to the coarsest map that is enlarged. Of a projection that comes at each of its
    levels before they are joined, the one at the coarsest level looks like the others, and belongs to the neck as they
    do. The neck reaches up to the last change of resolution and, behind that, as far as at each level the same
    subgraph begins: that is the head, once for each level.

    A model out of which one map comes has no backbone that serves several heads: its stages are the contracting and the
    expanding path of a U-Net (Ronneberger, Fischer, Brox, U-Net, 2015), or the latter alone.
    """
    nodes = set(flow.nodes)
    enlarging = [node for node in flow.nodes if flow.enlarges(node)]
    bottom_up = nodes - flow.after(enlarging)
    sources = [source for node in enlarging for source in flow.maps_read(node) if source in bottom_up]
    top = min(flow.grids[source] for source in sources)
    tops = [node for node in flow.nodes if node in bottom_up and flow.grids.get(node) == top]
    coarse = flow.after(tops) & bottom_up
    trunk = flow.before(tops) & bottom_up - coarse
    aside = bottom_up - trunk - coarse
    projection = _projection(flow, trunk, coarse, aside, tops[0])
    backbone = (trunk | coarse) - projection
    neck, rest, lost, told = _neck(flow, nodes - backbone)
    if not rest and len({flow.grids[one] for one in flow.output.all_input_nodes if one in flow.grids}) == 1:
        return _paths(flow, trunk | coarse, nodes), set()
    taps = sorted(
        {flow.grids[node] for node in backbone if node in flow.grids and not set(flow.readers[node]) <= backbone}
    )
    why = f"Leads down to the coarsest map that is enlarged later; read further on at {_strides(flow, taps)}."
    parts: Parts = [("backbone", why, backbone)]
    if inside := len(set(flow.attentions()) & neck):
        told += f" It holds {inside} times attention."
    if projection:
        told += " It begins with a projection of each level, alike at all of them."
    parts.append(("neck", told, neck))
    if lost:
        parts.append(("unknown", "Follows the exchange between levels, but no subgraph is alike at two of them.", lost))
    return parts, rest


def _paths(flow: Flow, down: set[fx.Node], nodes: set[fx.Node]) -> Parts:
    """A model out of which one map comes: as in a U-Net, a way down to coarse maps and a way up to it."""
    why = "Maps are enlarged on the way to the one map that comes out."
    if len({flow.grids[node] for node in (*flow.images, *down) if node in flow.grids}) == 1:
        return [("expanding path", why, nodes)]
    coarser = "Maps get coarser on the way to the first one that is enlarged."
    return [("contracting path", coarser, down), ("expanding path", why, nodes - down)]


def _projection(
    flow: Flow, trunk: set[fx.Node], coarse: set[fx.Node], aside: set[fx.Node], first: fx.Node
) -> set[fx.Node]:
    """The part of `coarse` from where it does what the side branches at all finer levels do; empty if it does not."""
    taps = [node for node in flow.nodes if node in trunk and any(user in aside for user in flow.readers[node])]
    branches = [_ordered(flow, flow.after([tap], aside) - {tap}) for tap in taps]
    kinds = {(*map(flow.signature, branch), flow.shape(branch[-1])[1:2]) for branch in branches}
    if len(kinds) != 1:
        return set()
    (kind,) = kinds
    chain = [node for node in flow.gates(first) if node in coarse]
    length = len(kind) - 1
    for start in range(len(chain) - length + 1):
        part = chain[start : start + length]
        if (*map(flow.signature, part), flow.shape(part[-1])[1:2]) == kind:
            return flow.after(part[:1]) & coarse
    return set()


def _neck(flow: Flow, nodes: set[fx.Node]) -> tuple[set[fx.Node], set[fx.Node], set[fx.Node], str]:
    """The neck's nodes, the head's, those that are neither for sure, and what tells them."""
    exchange = [node for node in nodes if flow.changes_grid(node)]
    core = flow.before(exchange) & nodes
    ahead = _ahead(flow, nodes, core)
    levels: dict[tuple[int, int], set[Grid]] = {}
    for node, found in ahead.items():
        levels.setdefault(found, set()).add(flow.grids[node])
    shared = {found: len(grids) for found, grids in levels.items() if len(grids) > 1 and found[0]}
    if not shared:
        return core, set(), nodes - core, _told(flow, exchange)
    # The largest of the subgraphs that come at most levels: what follows its first node comes at all of them too.
    head = max(shared, key=lambda found: (shared[found], found[0]))
    ends = [node for node, found in ahead.items() if found == head]
    neck = core | flow.before(ends) & nodes
    rest = flow.after(ends) & nodes - neck
    why = (
        f"{_told(flow, exchange)} It ends where the same subgraph of {head[0]} nodes follows at {shared[head]} levels."
    )
    return neck, rest, nodes - neck - rest, why


def _ahead(flow: Flow, nodes: set[fx.Node], core: set[fx.Node]) -> dict[fx.Node, tuple[int, int]]:
    """For each map what follows it outside of `core` as long as the grid stays: how many nodes, and a hash of them.

    The hash is of the subgraph unrolled to a tree, and two are alike if operations and windows are, at any size.
    """
    found: dict[fx.Node, tuple[int, int]] = {}
    for node in reversed(_ordered(flow, nodes & flow.grids.keys())):
        following = []
        for user in flow.users(node):
            if user in nodes and user not in core:
                same = flow.grids.get(user) == flow.grids[node]
                following.append((flow.signature(user), found[user] if same else (0, 0)))
        size = sum(1 + size for _, (size, _) in following)
        found[node] = size, hash(tuple(sorted(following, key=repr)))
    return found


def _told(flow: Flow, exchange: list[fx.Node]) -> str:
    up = sum(flow.enlarges(node) for node in exchange)
    down = len(exchange) - up
    shape = "a path to finer maps (FPN)" + (" and one back to coarser ones (PAN)" if down else "")
    return f"Levels are exchanged: {up} times enlarged, {down} times reduced, {shape}."


def _strides(flow: Flow, grids: Iterable[Grid]) -> str:
    height = flow.shape(flow.images[0])[-2]
    return "strides " + ", ".join(str(round(height / grid[0])) for grid in sorted(grids, reverse=True))


def _ordered(flow: Flow, nodes: set[fx.Node]) -> list[fx.Node]:
    return sorted(nodes, key=flow.place.__getitem__)

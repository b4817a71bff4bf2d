"""How much memory the values of a graph take at each of its nodes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from torch import fx


def live_bytes(graph: fx.Graph, storages: Mapping[fx.Node, Mapping[int, int]]) -> list[int]:
    """Bytes that are alive while each node runs, in the order of the graph.

    A storage is alive from the node that makes it to the last node that reads a value over it, so views keep what
    they look at. What is returned lives to the end. A kernel's own workspace is not known and not counted.

    Args:
        graph: the graph.
        storages: of each node, the bytes of the storages that its value lies in, by a key that they have of their
            own. Leave out what is not to be counted: inputs and parameters.
    """
    place = {node: number for number, node in enumerate(graph.nodes)}
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for node, held in storages.items():
        end = max((place[user] for user in node.users), default=place[node])
        for storage, size in held.items():
            first.setdefault(storage, place[node])
            last[storage] = max(last.get(storage, 0), end)
            sizes[storage] = size
    changes = [0] * (len(place) + 1)
    for storage, size in sizes.items():
        changes[first[storage]] += size
        changes[last[storage] + 1] -= size
    return list(accumulate(changes))[:-1]

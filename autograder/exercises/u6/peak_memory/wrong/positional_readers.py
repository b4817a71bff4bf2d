"""keywords left out

Looks for readers of a node among positional arguments only.
"""

import torch
from torch.utils._pytree import tree_leaves


def peak(graph: torch.fx.Graph) -> tuple[int, str]:
    nodes = list(graph.nodes)
    place = {node: number for number, node in enumerate(nodes)}

    def storages(node):
        for leaf in tree_leaves(node.meta.get("val")):
            if isinstance(leaf, torch.Tensor):
                yield leaf.untyped_storage()

    alive: dict = {}
    for node in nodes:
        here = place[node]
        for storage in storages(node):
            size, first, last = alive.get(storage._cdata, (storage.nbytes(), here, here))
            if node.op == "placeholder":
                first, last = 0, len(nodes) - 1
            last = max(last, here, *(place[user] for user in node.users if node in tree_leaves(list(user.args))), here)
            alive[storage._cdata] = size, first, last
    change = [0] * (len(nodes) + 1)
    for size, first, last in alive.values():
        change[first] += size
        change[last + 1] -= size
    most, where, now = -1, "", 0
    for node in nodes:
        now += change[place[node]]
        if now > most:
            most, where = now, node.name
    return most, where

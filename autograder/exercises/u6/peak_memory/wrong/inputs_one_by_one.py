"""inputs one by one

Adds up the inputs one by one, so that two that share their memory count twice.
"""

import torch
from torch.utils._pytree import tree_iter


def peak(graph):
    """Bytes come and go at the ends of each storage's life; a running sum is what is alive."""
    nodes = list(graph.nodes)
    place = {node: number for number, node in enumerate(nodes)}
    lives = {}
    for number, node in enumerate(nodes):
        for value in tree_iter(node.meta.get("val")):
            if not isinstance(value, torch.Tensor):
                continue
            storage = value.untyped_storage()
            life = lives.setdefault(storage._cdata, [number, number, storage.nbytes()])
            life[1] = max([life[1], number, *(place[user] for user in node.users)])
            if node.op == "placeholder":
                lives.setdefault(node.name, [0, len(nodes) - 1, storage.nbytes()])
                life[2] = 0
    change = [0] * (len(nodes) + 1)
    for first, last, size in lives.values():
        change[first] += size
        change[last + 1] -= size
    alive, best = 0, (-1, "")
    for number, node in enumerate(nodes):
        alive += change[number]
        if alive > best[0]:
            best = alive, node.name
    return best

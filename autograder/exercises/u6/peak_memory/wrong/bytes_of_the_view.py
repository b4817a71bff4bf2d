"""bytes of the view

The size of a storage is that of the first tensor on it, also where it is a view of more."""

import torch
from torch.utils._pytree import tree_leaves


def peak(graph):
    nodes = list(graph.nodes)
    number = {node: k for k, node in enumerate(nodes)}
    spans = {}
    for k, node in enumerate(nodes):
        for value in tree_leaves(node.meta.get("val")):
            if not isinstance(value, torch.Tensor):
                continue
            storage = value.untyped_storage()
            fixed, size, first, last = spans.get(storage._cdata, (False, value.numel() * value.itemsize, k, k))
            last = max([last, k, *(number[user] for user in node.users)])
            spans[storage._cdata] = (fixed or node.op == "placeholder", size, first, last)
    changes = [0] * (len(nodes) + 1)
    for fixed, size, first, last in spans.values():
        changes[0 if fixed else first] += size
        changes[len(nodes) if fixed else last + 1] -= size
    alive, best = 0, (-1, "")
    for k, node in enumerate(nodes):
        alive += changes[k]
        if alive > best[0]:
            best = (alive, node.name)
    return best

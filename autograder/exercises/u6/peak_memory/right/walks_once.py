"""Walks through the graph once, with a set of what is alive, and counts uses down."""

from collections import Counter

from torch import Tensor
from torch.utils._pytree import tree_flatten


def storages(node):
    values, _ = tree_flatten(node.meta.get("val"))
    found = [value.untyped_storage() for value in values if isinstance(value, Tensor)]
    return {one._cdata: one.nbytes() for one in found}


def peak(graph):
    uses = Counter()
    for node in graph.nodes:
        for key in storages(node):
            uses[key] += 1 + len(node.users)
        if node.op == "placeholder":
            for key in storages(node):
                uses[key] += 1
    now = {}
    for node in graph.nodes:
        if node.op == "placeholder":
            now.update(storages(node))
    totals = {}
    for node in graph.nodes:
        now.update(storages(node))
        totals[node.name] = sum(now.values())
        done = Counter(storages(node).keys())
        for given in node.all_input_nodes:
            done.update(storages(given).keys())
        for key, times in done.items():
            uses[key] -= times
            if uses[key] <= 0:
                now.pop(key)
    where = max(totals, key=totals.get)
    return totals[where], where

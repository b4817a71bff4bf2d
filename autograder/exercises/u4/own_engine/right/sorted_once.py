"""Needs no queue: sequence numbers are an order in which every node stands behind what leads to it.

Leaves have the highest number there is, so they are called as soon as their last gradient has come.
"""

import torch
from torch.autograd.graph import get_gradient_edge


def run_backward(tensors, gradients):
    edges = [get_gradient_edge(tensor) for tensor in tensors]
    nodes, reached = [], set()
    stack = [edge.node for edge in edges]
    while stack:
        node = stack.pop()
        if node in reached:
            continue
        reached.add(node)
        nodes.append(node)
        stack.extend(following for following, _ in node.next_functions if following)
    expected = {node: 0 for node in nodes}
    for node in nodes:
        for following, _ in node.next_functions:
            if following:
                expected[following] += 1
    slots, order = {}, []

    def put(node, number, gradient):
        slot = slots.setdefault(node, {})
        if gradient is not None:
            meta = node._input_metadata[number]
            gradient = gradient.sum_to_size(meta.shape).to(dtype=meta.dtype)
            slot[number] = slot[number] + gradient if number in slot else gradient

    def call(node):
        order.append(node)
        slot = slots[node]
        results = node(*(slot.get(number) for number in range(len(node._input_metadata))))
        if isinstance(results, torch.Tensor) or results is None:
            results = (results,)
        for (following, number), result in zip(node.next_functions, results):
            if following:
                put(following, number, result)
                expected[following] -= 1
                if not expected[following] and not following.next_functions:
                    call(following)

    for edge, gradient in zip(edges, gradients):
        put(edge.node, edge.output_nr, gradient)
    with torch.no_grad():
        for node in sorted(nodes, key=lambda node: -node._sequence_nr()):
            if not expected[node]:
                call(node)
    return order

"""wrong gradients

Adds what arrives in place: a gradient that went to two inputs changes at both.
"""

LEAF = "torch::autograd::AccumulateGrad"  # What name() says of the nodes that fill .grad.

from heapq import heappop, heappush
from itertools import count

import torch
from torch.autograd.graph import get_gradient_edge


class Task:
    """A node, how many gradients it waits for, and what has come."""

    def __init__(self, node):
        self.node, self.missing = node, 0
        self.inputs = [None] * len(node._input_metadata)

    def receive(self, position, gradient):
        if gradient is None:
            return
        wanted = self.node._input_metadata[position]
        gradient = gradient.sum_to_size(tuple(wanted.shape)).to(wanted.dtype)
        here = self.inputs[position]
        self.inputs[position] = gradient if here is None else here.add_(gradient)


def run_backward(tensors: list[torch.Tensor], gradients: list[torch.Tensor]) -> list:
    """A heap of ready tasks."""
    tasks = {}
    edges = [get_gradient_edge(tensor) for tensor in tensors]
    todo = [edge.node for edge in edges]
    while todo:
        node = todo.pop()
        if node in tasks:
            continue
        tasks[node] = Task(node)
        todo.extend(other for other, _ in node.next_functions if other is not None)
    for node in tasks:
        for other, _ in node.next_functions:
            if other is not None:
                tasks[other].missing += 1
    order, ready, ticket = [], [], count()
    with torch.no_grad():
        for edge, gradient in zip(edges, gradients, strict=True):
            tasks[edge.node].receive(edge.output_nr, gradient)
        for node, task in tasks.items():
            if not task.missing:
                heappush(ready, (-node._sequence_nr(), next(ticket), node))
        while ready:
            _, _, node = heappop(ready)
            order.append(node)
            results = node(*tasks[node].inputs)
            tasks[node].inputs = None
            if not isinstance(results, tuple):
                results = (results,)
            if node.name() == LEAF:
                continue
            for (other, position), gradient in zip(node.next_functions, results, strict=True):
                if other is None:
                    continue
                tasks[other].receive(position, gradient)
                tasks[other].missing -= 1
                if not tasks[other].missing:
                    heappush(ready, (-other._sequence_nr(), next(ticket), other))
    return order

"""A heap of numbers, and a class that holds what belongs to a node."""

import heapq
from dataclasses import dataclass
from itertools import count

import torch


@dataclass
class Waiting:
    node: object
    edges: int
    gradients: list

    def add(self, number, gradient):
        if gradient is None:
            return
        like = self.node._input_metadata[number]
        gradient = gradient.sum_to_size(like.shape)
        gradient = gradient.type(like.dtype)
        self.gradients[number] = (
            gradient if self.gradients[number] is None else torch.add(self.gradients[number], gradient)
        )


def run_backward(tensors, gradients):
    starts = [torch.autograd.graph.get_gradient_edge(tensor) for tensor in tensors]
    table = {}

    def entry(node):
        if fresh := node not in table:
            table[node] = Waiting(node, 0, [None for _ in node._input_metadata])
        return fresh

    fresh = [start.node for start in starts if entry(start.node)]
    while fresh:
        node = fresh.pop()
        for following, _ in node.next_functions:
            if following is None:
                continue
            if entry(following):
                fresh.append(following)
            table[following].edges += 1

    ticket, heap, order = count(), [], []
    for start, gradient in zip(starts, gradients):
        table[start.node].add(start.output_nr, gradient)
    for node in {start.node for start in starts}:
        if not table[node].edges:
            heapq.heappush(heap, (-node._sequence_nr(), next(ticket), node))
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    try:
        while heap:
            *_, node = heapq.heappop(heap)
            order.append(node)
            results = node(*table.pop(node).gradients)
            if not isinstance(results, tuple):
                results = (results,)
            for edge, result in zip(node.next_functions, results):
                if edge[0] is None:
                    continue
                below = table[edge[0]]
                below.add(edge[1], result)
                below.edges -= 1
                if not below.edges:
                    heapq.heappush(heap, (-edge[0]._sequence_nr(), next(ticket), edge[0]))
    finally:
        torch.set_grad_enabled(before)
    return order

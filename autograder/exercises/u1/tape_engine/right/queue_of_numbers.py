"""As PyTorch's engine: each operation has a sequence number, and the highest that is ready goes first."""

import heapq
from itertools import count

import numpy as np

NUMBERS = count()


def unbroadcast(gradient, shape):
    lined_up = (1,) * (gradient.ndim - len(shape)) + shape
    dims = tuple(dim for dim, have in enumerate(gradient.shape) if have != lined_up[dim])
    return gradient.sum(axis=dims).reshape(shape)


class Node:
    def __init__(self, inputs, function):
        self.number, self.inputs, self.function = next(NUMBERS), inputs, function


class Value:
    def __init__(self, data, needs_gradient=False, node=None):
        self.data = np.asarray(data, dtype=np.float64)
        self.needs_gradient = needs_gradient
        self.gradient = None
        self.node = node

    def __add__(self, other):
        return operation(np.add, (self, other), lambda g, out, a, b: (g, g))

    def __mul__(self, other):
        return operation(np.multiply, (self, other), lambda g, out, a, b: (b * g, a * g))

    def __neg__(self):
        return operation(np.negative, (self,), lambda g, out, a: (-1 * g,))

    def __matmul__(self, other):
        return operation(np.matmul, (self, other), lambda g, out, a, b: (g @ b.T, a.T @ g))

    def relu(self):
        return operation(lambda a: np.where(a > 0, a, 0), (self,), lambda g, out, a: (np.where(a > 0, g, 0),))

    def tanh(self):
        return operation(np.tanh, (self,), lambda g, out, a: (g - g * out * out,))

    def sum(self):
        return operation(np.sum, (self,), lambda g, out, a: (np.broadcast_to(g, a.shape),))

    def backward(self):
        if self.data.size != 1 or self.needs_gradient is False:
            raise ValueError("no place to start")
        waiting = [(-self.key(), self)]
        arrived = {self: np.ones_like(self.data)}
        while waiting:
            _, value = heapq.heappop(waiting)
            g = arrived[value]
            if value.node is None:
                value.gradient = g if value.gradient is None else g + value.gradient
                continue
            for one, part in zip(value.node.inputs, value.node.function(g)):
                if not one.needs_gradient:
                    continue
                part = unbroadcast(part, one.data.shape)
                if one in arrived:
                    arrived[one] = arrived[one] + part
                else:
                    arrived[one] = part
                    heapq.heappush(waiting, (-one.key(), one))

    def key(self):
        return float("-inf") if self.node is None else self.node.number

    def __lt__(self, other):
        return id(self) < id(other)


def operation(compute, values, function):
    arrays = [value.data for value in values]
    out = compute(*arrays)
    if not any(value.needs_gradient for value in values):
        return Value(out)
    return Value(out, True, Node(values, lambda g: function(g, out, *arrays)))

"""wrong gradient

The gradient of relu is multiplied by the mask: infinity times 0 is NaN."""

import heapq
from itertools import count

import numpy as np

NUMBERS = count()


def summed_to(gradient, shape):
    gradient = np.asarray(gradient, dtype=float)
    extra = gradient.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(extra + d for d, size in enumerate(shape) if size == 1)
    return gradient.sum(axis=axes).reshape(shape)


def made(data, inputs, rule):
    result = Value(data)
    if any(one.needs_gradient for one in inputs):
        result.needs_gradient, result.inputs, result.rule, result.leaf = True, inputs, rule, False
    return result


class Value:
    def __init__(self, data, needs_gradient=False):
        self.data = np.asarray(data, dtype=float)
        self.needs_gradient = needs_gradient
        self.gradient = None
        self.inputs, self.rule = (), None
        self.leaf, self.number = True, next(NUMBERS)

    def __add__(self, other):
        return made(self.data + other.data, (self, other), lambda g: (g, g))

    def __mul__(self, other):
        return made(self.data * other.data, (self, other), lambda g: (g * other.data, g * self.data))

    def __neg__(self):
        return made(-self.data, (self,), lambda g: (-g,))

    def __matmul__(self, other):
        return made(self.data @ other.data, (self, other), lambda g: (g @ other.data.T, self.data.T @ g))

    def relu(self):
        above = self.data > 0
        return made(np.where(above, self.data, 0.0), (self,), lambda g: (g * above,))

    def tanh(self):
        t = np.tanh(self.data)
        return made(t, (self,), lambda g: (g * (1 - t * t),))

    def sum(self):
        shape = self.data.shape
        return made(self.data.sum(), (self,), lambda g: (np.broadcast_to(g, shape),))

    def backward(self):
        if self.data.size > 1:
            raise ValueError("more than one number")
        if not self.needs_gradient:
            raise ValueError("needs no gradient")
        arrived = {self.number: np.ones(self.data.shape)}
        waiting = [(-self.number, self)]
        while waiting:
            _, value = heapq.heappop(waiting)
            gradient = arrived.pop(value.number)
            if value.leaf:
                value.gradient = gradient.copy() if value.gradient is None else value.gradient + gradient
                continue
            for one, part in zip(value.inputs, value.rule(gradient)):
                if not one.needs_gradient:
                    continue
                part = summed_to(part, one.data.shape)
                if one.number in arrived:
                    arrived[one.number] = arrived[one.number] + part
                else:
                    arrived[one.number] = part
                    heapq.heappush(waiting, (-one.number, one))

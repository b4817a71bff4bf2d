"""arrays shared

Keeps the array that came and adds to it in place the next time: both operands of a + b own the same array.
"""

import heapq
import itertools

import numpy as np

CLOCK = itertools.count()


def summed_to(gradient, shape):
    """A gradient, summed over the dimensions that were stretched, so that it has this shape."""
    gradient = np.asarray(gradient)
    if gradient.shape == tuple(shape):
        return gradient
    while gradient.ndim > len(shape):
        gradient = gradient.sum(0)
    stretched = tuple(d for d, size in enumerate(shape) if size == 1 and gradient.shape[d] != 1)
    return gradient.sum(stretched, keepdims=True).reshape(shape)


def made(data, inputs, rule):
    result = Value(data)
    if any(one.needs_gradient for one in inputs):
        result.needs_gradient = True
        result.inputs, result.rule = inputs, rule
    return result


class Value:
    """An array that remembers how it was made: sorted by a number that counts all values."""

    def __init__(self, data, needs_gradient=False):
        self.data = np.asarray(data, dtype=float)
        self.needs_gradient = needs_gradient
        self.gradient = None
        self.inputs, self.rule = (), None
        self.born = next(CLOCK)

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
        return made(np.where(above, self.data, 0.0), (self,), lambda g: (np.where(above, g, 0.0),))

    def tanh(self):
        t = np.tanh(self.data)
        return made(t, (self,), lambda g: (g * (1 - t * t),))

    def sum(self):
        return made(self.data.sum(), (self,), lambda g: (np.full(self.data.shape, g),))

    def backward(self):
        if self.data.size != 1:
            raise ValueError("backward starts at one number")
        if not self.needs_gradient:
            raise ValueError("this value needs no gradient")
        arrived, waiting = {id(self): np.ones(self.data.shape)}, [(-self.born, self)]
        while waiting:
            value = heapq.heappop(waiting)[1]
            g = arrived.pop(id(value))
            if value.rule is None:
                if value.gradient is None:
                    value.gradient = g
                else:
                    value.gradient += g
                continue
            for one, part in zip(value.inputs, value.rule(g)):
                if not one.needs_gradient:
                    continue
                part = summed_to(part, one.data.shape)
                if id(one) in arrived:
                    arrived[id(one)] = arrived[id(one)] + part
                else:
                    arrived[id(one)] = part
                    heapq.heappush(waiting, (-one.born, one))

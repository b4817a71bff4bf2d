"""starts anew

Lets go of its notes on the way back: a second call finds nothing.
"""

import heapq
import itertools

import numpy as np

TICKS = itertools.count()


def fit(g, shape):
    while g.ndim > len(shape):
        g = np.add.reduce(g, axis=0)
    for d, n in enumerate(shape):
        if n == 1 and g.shape[d] != 1:
            g = np.add.reduce(g, axis=d, keepdims=True)
    return g


class Value:
    def __init__(self, data, needs_gradient=False):
        self.data = np.asarray(data, dtype=float)
        self.needs_gradient = needs_gradient
        self.gradient = None
        self.edges = ()
        self.leaf = True
        self.tick = next(TICKS)

    @staticmethod
    def _new(data, *edges):
        out = Value(data)
        edges = [(value, back) for value, back in edges if value.needs_gradient]
        out.leaf = False
        if edges:
            out.needs_gradient = True
            out.edges = edges
        return out

    def __add__(self, other):
        a, b = self.data.shape, other.data.shape
        return Value._new(self.data + other.data, (self, lambda g: fit(g, a)), (other, lambda g: fit(g, b)))

    def __mul__(self, other):
        a, b = self.data, other.data
        return Value._new(a * b, (self, lambda g: fit(g * b, a.shape)), (other, lambda g: fit(g * a, b.shape)))

    def __neg__(self):
        return Value._new(-self.data, (self, lambda g: -g))

    def __matmul__(self, other):
        a, b = self.data, other.data
        return Value._new(a @ b, (self, lambda g: g @ b.T), (other, lambda g: a.T @ g))

    def relu(self):
        mask = self.data > 0
        return Value._new(np.where(mask, self.data, 0.0), (self, lambda g: np.where(mask, g, 0.0)))

    def tanh(self):
        t = np.tanh(self.data)
        return Value._new(t, (self, lambda g: g * (1 - t * t)))

    def sum(self):
        shape = self.data.shape
        return Value._new(self.data.sum(), (self, lambda g: np.broadcast_to(g, shape)))

    def backward(self):
        if self.data.size > 1:
            raise ValueError("more than one number")
        if not self.needs_gradient:
            raise ValueError("needs no gradient")
        waiting = {self.tick: (self, np.ones(self.data.shape))}
        queue = [-self.tick]
        while queue:
            value, g = waiting.pop(-heapq.heappop(queue))
            if value.leaf:
                value.gradient = np.array(g) if value.gradient is None else value.gradient + g
            edges, value.edges = value.edges, ()
            for source, back in edges:
                part = back(g)
                if source.tick in waiting:
                    waiting[source.tick] = (source, waiting[source.tick][1] + part)
                else:
                    waiting[source.tick] = (source, part)
                    heapq.heappush(queue, -source.tick)

"""A tape in the old sense: one list for all operations, walked from its end."""

import numpy as np

TAPE = []


def fit(gradient, shape):
    while np.ndim(gradient) > len(shape):
        gradient = np.sum(gradient, axis=0)
    for dim, size in enumerate(shape):
        if size == 1:
            gradient = np.sum(gradient, axis=dim, keepdims=True)
    return gradient


class Value:
    def __init__(self, data, needs_gradient=False):
        self.data = np.array(data, dtype=float)
        self.needs_gradient = needs_gradient
        self.gradient = None
        self.made = False

    def note(self, data, *pairs):
        """`pairs` are inputs, each with the function for its gradient."""
        pairs = [pair for pair in pairs if pair[0].needs_gradient]
        result = Value(data, bool(pairs))
        if pairs:
            result.made = True
            TAPE.append((result, pairs))
        return result

    def __add__(self, other):
        return self.note(self.data + other.data, (self, lambda g: g), (other, lambda g: g))

    def __mul__(self, other):
        return self.note(self.data * other.data, (self, lambda g: g * other.data), (other, lambda g: g * self.data))

    def __neg__(self):
        return self.note(-self.data, (self, lambda g: -g))

    def __matmul__(self, other):
        return self.note(self.data @ other.data, (self, lambda g: g @ other.data.T), (other, lambda g: self.data.T @ g))

    def relu(self):
        above = (self.data > 0).astype(float)
        return self.note(self.data * above, (self, lambda g: g * above))

    def tanh(self):
        t = np.tanh(self.data)
        return self.note(t, (self, lambda g: g * (1 - t**2)))

    def sum(self):
        return self.note(self.data.sum(), (self, lambda g: np.full(self.data.shape, g)))

    def backward(self):
        if self.data.size > 1:
            raise ValueError("more than one number")
        if not self.needs_gradient:
            raise ValueError("needs no gradient")
        gradients = {id(self): np.ones(self.data.shape)}
        leaves = {} if self.made else {id(self): self}
        for result, pairs in reversed(TAPE):
            if id(result) in gradients:
                gradient = gradients[id(result)]
                for value, rule in pairs:
                    part = fit(rule(gradient), value.data.shape)
                    gradients[id(value)] = gradients[id(value)] + part if id(value) in gradients else part
                    if not value.made:
                        leaves[id(value)] = value
        for number, value in leaves.items():
            value.gradient = gradients[number] + (0 if value.gradient is None else value.gradient)

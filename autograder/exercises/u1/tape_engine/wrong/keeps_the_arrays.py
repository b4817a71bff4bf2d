"""keeps constants

Lets the inputs go, and keeps a rule that holds their arrays.
"""


def summed_to(gradient, shape):
    """A gradient, summed over the dimensions that were stretched, so that it has this shape."""
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    stretched = tuple(dim for dim, size in enumerate(shape) if size == 1)
    return gradient.sum(axis=stretched, keepdims=True)


def made(data, inputs, rule):
    """The result of an operation. `rule(g)` returns the gradient for each input."""
    result = Value(data, any(one.needs_gradient for one in inputs))
    result.rule = rule
    if result.needs_gradient:
        result.inputs = inputs
    return result


class Value:
    """An array that remembers how it was made."""

    def __init__(self, data, needs_gradient=False):
        self.data = np.asarray(data, dtype=float)
        self.needs_gradient = needs_gradient
        self.gradient = None
        self.inputs, self.rule = (), None

    def __add__(self, other):
        return made(self.data + other.data, (self, other), lambda g: (g, g))

    def __mul__(self, other):
        a, b = self.data, other.data
        return made(a * b, (self, other), lambda g: (g * b, g * a))

    def __neg__(self):
        return made(-self.data, (self,), lambda g: (-g,))

    def __matmul__(self, other):
        a, b = self.data, other.data
        return made(a @ b, (self, other), lambda g: (g @ b.T, a.T @ g))

    def relu(self):
        a = self.data
        return made(np.maximum(a, 0), (self,), lambda g: (g * (a > 0),))

    def tanh(self):
        result = np.tanh(self.data)
        return made(result, (self,), lambda g: (g * (1 - result * result),))

    def sum(self):
        a = self.data
        return made(a.sum(), (self,), lambda g: (g * np.ones_like(a),))

    def backward(self):
        """Add to the gradients of everything that this value was made of."""
        if self.data.size != 1 or not self.needs_gradient:
            raise ValueError("gradients start at a single number that needs one")
        order, met, stack = [], set(), [(self, False)]
        while stack:
            value, inputs_done = stack.pop()
            if inputs_done:
                order.append(value)
            elif id(value) not in met:
                met.add(id(value))
                stack.append((value, True))
                stack += [(one, False) for one in value.inputs if one.needs_gradient]
        gradients = {id(self): np.ones_like(self.data)}
        for value in reversed(order):
            gradient = gradients.pop(id(value))
            if value.rule is None:
                value.gradient = gradient if value.gradient is None else value.gradient + gradient
                continue
            for one, part in zip(value.inputs, value.rule(gradient), strict=True):
                if one.needs_gradient:
                    gradients[id(one)] = gradients.get(id(one), 0) + summed_to(part, one.data.shape)

"""read before it is there

Takes it that the graph begins with two inputs, and does not look at what they need.
"""

from collections import Counter

import numpy as np


def same(a):
    return a


def product(a, b):
    if len(a) != 2 or len(b) != 2 or a[1] != b[0]:
        raise ValueError("these are no matrices that fit")
    return (a[0], b[1])


def turned(a):
    if len(a) != 2:
        raise ValueError("no matrix")
    return (a[1], a[0])


def stretches(small, large):
    if len(small) > len(large):
        raise ValueError("too many dimensions")
    if any(have not in (1, want) for have, want in zip(small[::-1], large[::-1])):
        raise ValueError("cannot be stretched")


def together(a, b):
    stretched = np.broadcast(np.empty(a), np.empty(b))
    return stretched.shape


SHAPES = {"add": together, "mul": together, "neg": same, "relu": same, "step": same, "tanh": same}
SHAPES |= {"matmul": product, "transpose": turned}


class Graph:
    def __init__(self):
        self.nodes = []

    def shape(self, number):
        return self.nodes[number][2]

    def call(self, operator, *inputs, shape=None):
        shapes = [self.shape(one) for one in inputs]
        if operator in ("input", "ones", "zeros"):
            found = tuple(shape)
        elif operator == "sum_to":
            stretches(shape, shapes[0])
            found = tuple(shape)
        elif operator == "expand":
            stretches(shapes[0], shape)
            found = tuple(shape)
        elif operator in SHAPES:
            found = SHAPES[operator](*shapes)
        else:
            raise ValueError(f"unknown: {operator}")
        self.nodes += [(operator, inputs, found)]
        return len(self.nodes) - 1


class Rules:
    def __init__(self, graph):
        self.graph, self.call = graph, graph.call

    def fitted(self, g, like):
        wanted = self.graph.shape(like)
        return g if self.graph.shape(g) == wanted else self.call("sum_to", g, shape=wanted)

    def add(self, g, out, a, b):
        return self.fitted(g, a), self.fitted(g, b)

    def mul(self, g, out, a, b):
        return self.fitted(self.call("mul", b, g), a), self.fitted(self.call("mul", a, g), b)

    def neg(self, g, out, a):
        return (self.call("neg", g),)

    def relu(self, g, out, a):
        return (self.call("mul", self.call("step", out), g),)

    def tanh(self, g, out, a):
        one = self.call("ones", shape=self.graph.shape(out))
        slope = self.call("add", one, self.call("neg", self.call("mul", out, out)))
        return (self.call("mul", g, slope),)

    def matmul(self, g, out, a, b):
        return self.call("matmul", g, self.call("transpose", b)), self.call("matmul", self.call("transpose", a), g)

    def transpose(self, g, out, a):
        return (self.call("transpose", g),)

    def sum_to(self, g, out, a):
        return (self.call("expand", g, shape=self.graph.shape(a)),)

    def expand(self, g, out, a):
        return (self.fitted(g, a),)


def gradients(graph, loss, wanted):
    if len(graph.shape(loss)):
        raise ValueError("the loss is no number")
    rules = Rules(graph)
    waiting = {loss: [graph.call("ones", shape=())]}
    finished = {}
    while waiting:
        number = max(waiting)
        first, *others = waiting.pop(number)
        for other in others:
            first = graph.call("add", first, other)
        finished[number] = first
        operator, inputs, _ = graph.nodes[number]
        rule = getattr(rules, operator, None)
        if rule is not None:
            for one, part in zip(inputs, rule(first, number, *inputs)):
                waiting.setdefault(one, []).append(part)
    return [
        finished[number] if number in finished else graph.call("zeros", shape=graph.shape(number)) for number in wanted
    ]


def program(graph, outputs):
    used, readers = set(outputs), Counter(outputs)
    for number in range(len(graph.nodes) - 1, 1, -1):
        if number in used and graph.nodes[number][0] != "input":
            used |= set(graph.nodes[number][1])
            readers.update(set(graph.nodes[number][1]))
    instructions = []
    for number in sorted(used):
        operator, inputs, _ = graph.nodes[number]
        if operator == "input":
            continue
        instructions.append(("run", number))
        for one in dict.fromkeys(inputs):
            readers[one] -= 1
            if readers[one] == 0 and graph.nodes[one][0] != "input":
                instructions.append(("free", one))
    return instructions

"""not refused

Only the inner sizes of a product are looked at, so that a vector is taken for a matrix.
"""

import numpy as np

READS = {
    "input": 0,
    "ones": 0,
    "zeros": 0,
    "add": 2,
    "mul": 2,
    "neg": 1,
    "relu": 1,
    "tanh": 1,
    "step": 1,
    "matmul": 2,
    "transpose": 1,
    "sum_to": 1,
    "expand": 1,
}


def stretched(a, b):
    return tuple(np.broadcast_shapes(a, b))


class Graph:
    """Operations that are described and not computed."""

    def __init__(self):
        self.nodes = []

    def call(self, operator, *inputs, shape=None):
        if operator not in READS or len(inputs) != READS[operator]:
            raise ValueError(f"no such operator: {operator}")
        shapes = [self.nodes[one][2] for one in inputs]
        given = operator in ("input", "ones", "zeros", "sum_to", "expand")
        if given:
            if shape is None:
                raise ValueError(f"{operator} needs a shape")
            shape = tuple(shape)
        if operator in ("add", "mul"):
            shape = stretched(*shapes)
        elif operator in ("neg", "relu", "tanh", "step"):
            shape = shapes[0]
        elif operator == "matmul":
            if not shapes[0] or not shapes[1] or shapes[0][-1] != shapes[1][0]:
                raise ValueError(f"no product of {shapes}")
            shape = shapes[0][:-1] + shapes[1][1:]
        elif operator == "transpose":
            if len(shapes[0]) != 2:
                raise ValueError("only matrices")
            shape = shapes[0][::-1]
        elif operator == "sum_to" and stretched(shape, shapes[0]) != shapes[0]:
            raise ValueError(f"{shapes[0]} does not come from {shape}")
        elif operator == "expand" and stretched(shapes[0], shape) != shape:
            raise ValueError(f"{shapes[0]} does not stretch to {shape}")
        self.nodes.append((operator, tuple(inputs), shape))
        return len(self.nodes) - 1


def gradients(graph, loss, wanted):
    """By a walk that makes the order first, and sums the parts when a node's turn has come."""
    if graph.nodes[loss][2] != ():
        raise ValueError("a loss is one number")
    call = graph.call

    def size(number):
        return graph.nodes[number][2]

    def to(g, shape):
        return g if size(g) == shape else call("sum_to", g, shape=shape)

    reachable, waiting = set(), [loss]
    while waiting:
        number = waiting.pop()
        if number not in reachable:
            reachable.add(number)
            waiting.extend(graph.nodes[number][1])
    parts = {loss: [call("ones", shape=())]}
    whole = {}
    for number in sorted(reachable, reverse=True):
        if number not in parts:
            continue
        g = parts[number][0]
        for more in parts[number][1:]:
            g = call("add", g, more)
        whole[number] = g
        operator, inputs, _ = graph.nodes[number]
        if operator == "add":
            back = [to(g, size(one)) for one in inputs]
        elif operator == "mul":
            a, b = inputs
            back = [to(call("mul", g, b), size(a)), to(call("mul", g, a), size(b))]
        elif operator == "neg":
            back = [call("neg", g)]
        elif operator == "relu":
            back = [call("mul", g, call("step", inputs[0]))]
        elif operator == "tanh":
            square = call("neg", call("mul", number, number))
            back = [call("mul", g, call("add", call("ones", shape=()), square))]
        elif operator == "matmul":
            a, b = inputs
            back = [call("matmul", g, call("transpose", b)), call("matmul", call("transpose", a), g)]
        elif operator == "transpose":
            back = [call("transpose", g)]
        elif operator == "sum_to":
            back = [call("expand", g, shape=size(inputs[0]))]
        elif operator == "expand":
            back = [to(g, size(inputs[0]))]
        else:
            back = []
        for one, part in zip(inputs, back):
            parts.setdefault(one, []).append(part)
    return [whole[one] if one in whole else call("zeros", shape=size(one)) for one in wanted]


def program(graph, outputs):
    """In the order in which a walk from the outputs finishes."""
    order, done = [], set()
    waiting = [(one, False) for one in reversed(outputs)]
    while waiting:
        number, ready = waiting.pop()
        if number in done:
            continue
        operator, inputs, _ = graph.nodes[number]
        if ready or not inputs:
            done.add(number)
            if operator != "input":
                order.append(number)
        else:
            waiting.append((number, True))
            waiting.extend((one, False) for one in inputs)
    last = {one: number for number in order for one in graph.nodes[number][1]}
    instructions = []
    for number in order:
        instructions.append(("run", number))
        for one in sorted(set(graph.nodes[number][1])):
            if last[one] == number and one not in outputs and graph.nodes[one][0] != "input":
                instructions.append(("free", one))
    return instructions

"""wrong shape

Of two sizes the larger one counts, so 0 and 1 make 1."""

import numpy as np

GIVEN = ("input", "ones", "zeros")
UNARY = ("neg", "relu", "tanh", "step")
ARITY = (
    dict.fromkeys(GIVEN, 0)
    | dict.fromkeys(UNARY, 1)
    | {"add": 2, "mul": 2, "matmul": 2, "transpose": 1, "sum_to": 1, "expand": 1}
)


def stretched(a, b):
    long = max(len(a), len(b))
    a, b = (1,) * (long - len(a)) + tuple(a), (1,) * (long - len(b)) + tuple(b)
    for x, y in zip(a, b):
        if x != y and 1 not in (x, y):
            raise ValueError("shapes do not fit")
    return tuple(max(x, y) for x, y in zip(a, b))


def shape_of(operator, shapes, shape):
    if operator not in ARITY or len(shapes) != ARITY[operator]:
        raise ValueError(f"no operator {operator} with {len(shapes)} inputs")
    if operator in GIVEN:
        if shape is None:
            raise ValueError("which shape?")
        return tuple(shape)
    if operator in UNARY:
        return shapes[0]
    if operator in ("add", "mul"):
        return stretched(*shapes)
    if operator in ("matmul", "transpose"):
        if any(len(one) != 2 for one in shapes):
            raise ValueError("matrices, please")
        if operator == "transpose":
            return shapes[0][::-1]
        if shapes[0][1] != shapes[1][0]:
            raise ValueError("the matrices do not fit")
        return (shapes[0][0], shapes[1][1])
    if shape is None:
        raise ValueError("which shape?")
    small, large = (shapes[0], tuple(shape)) if operator == "expand" else (tuple(shape), shapes[0])
    if stretched(small, large) != large:
        raise ValueError("cannot be stretched")
    return tuple(shape)


class Graph:
    def __init__(self):
        self.nodes = []

    def call(self, operator, *inputs, shape=None):
        result = shape_of(operator, [self.nodes[one][2] for one in inputs], shape)
        self.nodes.append((operator, tuple(inputs), result))
        return len(self.nodes) - 1


def parts(graph, number, g):
    operator, inputs, shape = graph.nodes[number]
    call = graph.call
    if operator == "add":
        return [g, g]
    if operator == "mul":
        return [call("mul", g, inputs[1]), call("mul", g, inputs[0])]
    if operator == "neg":
        return [call("neg", g)]
    if operator == "relu":
        return [call("mul", g, call("step", inputs[0]))]
    if operator == "tanh":
        slope = call("add", call("ones", shape=()), call("neg", call("mul", number, number)))
        return [call("mul", g, slope)]
    if operator == "matmul":
        a, b = inputs
        return [call("matmul", g, call("transpose", b)), call("matmul", call("transpose", a), g)]
    if operator == "transpose":
        return [call("transpose", g)]
    if operator == "sum_to":
        return [call("expand", g, shape=graph.nodes[inputs[0]][2])]
    if operator == "expand":
        return [g]
    return []


def gradients(graph, loss, wanted):
    if graph.nodes[loss][2] != ():
        raise ValueError("the loss is no single number")
    arrived = {number: [] for number in range(loss + 1)}
    arrived[loss].append(graph.call("ones", shape=()))
    total = {}
    for number in range(loss, -1, -1):
        if not arrived[number]:
            continue
        g = arrived[number][0]
        for part in arrived[number][1:]:
            g = graph.call("add", g, part)
        total[number] = g
        for one, part in zip(graph.nodes[number][1], parts(graph, number, g)):
            if graph.nodes[part][2] != graph.nodes[one][2]:
                part = graph.call("sum_to", part, shape=graph.nodes[one][2])
            arrived[one].append(part)
    return [total[one] if one in total else graph.call("zeros", shape=graph.nodes[one][2]) for one in wanted]


def program(graph, outputs):
    needed, waiting = set(), list(outputs)
    while waiting:
        one = waiting.pop()
        if one not in needed:
            needed.add(one)
            waiting.extend(graph.nodes[one][1])
    later, backwards = set(outputs), []
    for number in sorted(needed, reverse=True):
        operator, inputs, _ = graph.nodes[number]
        if operator == "input":
            continue
        for one in sorted(set(inputs)):
            if one not in later and graph.nodes[one][0] != "input":
                backwards.append(("free", one))
                later.add(one)
        backwards.append(("run", number))
    return backwards[::-1]

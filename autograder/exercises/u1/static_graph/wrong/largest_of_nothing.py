"""refused

Looks for the last output, and where nothing is asked for there is none.
"""

import numpy as np

ONE, TWO = {"neg", "relu", "tanh", "step"}, {"add", "mul"}
MADE = {"input", "ones", "zeros"}


def infer(operator, shapes, shape):
    count = {**dict.fromkeys(MADE, 0), **dict.fromkeys(ONE, 1), **dict.fromkeys(TWO, 2)}
    count |= {"matmul": 2, "transpose": 1, "sum_to": 1, "expand": 1}
    if operator not in count or len(shapes) != count[operator]:
        raise ValueError(operator)
    if (shape is not None) != (operator in MADE | {"sum_to", "expand"}):
        raise ValueError("shape")
    if operator in MADE:
        return tuple(shape)
    if operator in ONE:
        return shapes[0]
    if operator in TWO:
        return tuple(np.broadcast_shapes(*shapes))
    if operator == "matmul":
        a, b = shapes
        if len(a) != 2 or len(b) != 2 or a[1] != b[0]:
            raise ValueError("matmul")
        return a[0], b[1]
    if operator == "transpose":
        if len(shapes[0]) != 2:
            raise ValueError("transpose")
        return shapes[0][::-1]
    shape = tuple(shape)
    small, large = (shape, shapes[0]) if operator == "sum_to" else (shapes[0], shape)
    if tuple(np.broadcast_shapes(small, large)) != large:
        raise ValueError(operator)
    return shape


class Graph:
    def __init__(self):
        self.nodes = []

    def call(self, operator, *inputs, shape=None):
        result = infer(operator, [self.nodes[i][2] for i in inputs], shape)
        self.nodes.append((operator, tuple(inputs), result))
        return len(self.nodes) - 1


def add_parts(graph, number, g, want):
    operator, inputs, _ = graph.nodes[number]
    call = graph.call

    def fit(node, to):
        shape = graph.nodes[to][2]
        return node if graph.nodes[node][2] == shape else call("sum_to", node, shape=shape)

    if operator == "add":
        for i in inputs:
            want(i, fit(g, i))
    elif operator == "mul":
        a, b = inputs
        want(a, fit(call("mul", g, b), a))
        want(b, fit(call("mul", g, a), b))
    elif operator == "neg":
        want(inputs[0], call("neg", g))
    elif operator == "relu":
        want(inputs[0], call("mul", g, call("step", inputs[0])))
    elif operator == "tanh":
        square = call("neg", call("mul", number, number))
        want(inputs[0], call("mul", g, call("add", call("ones", shape=graph.nodes[number][2]), square)))
    elif operator == "matmul":
        a, b = inputs
        want(a, call("matmul", g, call("transpose", b)))
        want(b, call("matmul", call("transpose", a), g))
    elif operator == "transpose":
        want(inputs[0], call("transpose", g))
    elif operator == "sum_to":
        want(inputs[0], call("expand", g, shape=graph.nodes[inputs[0]][2]))
    elif operator == "expand":
        want(inputs[0], call("sum_to", g, shape=graph.nodes[inputs[0]][2]))


def gradients(graph, loss, wanted):
    if graph.nodes[loss][2] != ():
        raise ValueError("loss")
    # which nodes matter: between wanted and loss
    matter = set()
    for n in range(loss + 1):
        if n in wanted or any(i in matter for i in graph.nodes[n][1]):
            matter.add(n)
    arrived = {loss: [graph.call("ones", shape=())]}
    whole = {}
    for n in range(loss, -1, -1):
        if n not in arrived or n not in matter:
            continue
        first, *more = arrived[n]
        for one in more:
            first = graph.call("add", first, one)
        whole[n] = first

        def want(i, node):
            if i in matter:
                arrived.setdefault(i, []).append(node)

        add_parts(graph, n, first, want)
    return [whole[n] if n in whole else graph.call("zeros", shape=graph.nodes[n][2]) for n in wanted]


def program(graph, outputs):
    max(outputs)
    need, stack = set(), list(outputs)
    while stack:
        n = stack.pop()
        if n not in need:
            need.add(n)
            stack += graph.nodes[n][1]
    keep, done, backwards = set(outputs), set(), []
    for n in sorted(need, reverse=True):
        operator, inputs, _ = graph.nodes[n]
        if operator == "input":
            continue
        for i in sorted(set(inputs)):
            if i not in done and i not in keep and graph.nodes[i][0] != "input":
                backwards.append(("free", i))
                done.add(i)
        backwards.append(("run", n))
    return backwards[::-1]

"""Runs nodes as the outputs ask for them, depth first, and collects gradients in a list as long as the graph."""

import numpy as np

ONE = ("neg", "relu", "step", "tanh")


class Graph:
    def __init__(self):
        self.nodes = []

    def call(self, operator, *inputs, shape=None):
        shapes = [self.nodes[one][2] for one in inputs]
        match operator, shapes:
            case (("input" | "ones" | "zeros"), []):
                result = shape
            case (("add" | "mul"), [a, b]):
                result = np.broadcast_shapes(a, b)
            case "matmul", [(rows, inner), (other, columns)] if inner == other:
                result = (rows, columns)
            case "transpose", [(rows, columns)]:
                result = (columns, rows)
            case "sum_to", [a] if np.broadcast_shapes(a, shape) == a:
                result = shape
            case "expand", [a] if np.broadcast_shapes(a, shape) == tuple(shape):
                result = shape
            case name, [a] if name in ONE:
                result = a
            case _:
                raise ValueError(f"{operator} does not fit {shapes}")
        self.nodes.append((operator, tuple(inputs), tuple(result)))
        return len(self.nodes) - 1


def gradients(graph, loss, wanted):
    if graph.nodes[loss][2]:
        raise ValueError("not a single number")
    call, shape = graph.call, lambda one: graph.nodes[one][2]
    total = [None] * len(graph.nodes)
    total[loss] = call("ones", shape=())

    def give(one, part):
        total[one] = part if total[one] is None else call("add", total[one], part)

    for number in reversed(range(loss + 1)):
        g = total[number]
        if g is None:
            continue
        operator, inputs, _ = graph.nodes[number]
        if operator == "add":
            for one in inputs:
                give(one, call("sum_to", g, shape=shape(one)))
        elif operator == "mul":
            a, b = inputs
            give(a, call("sum_to", call("mul", g, b), shape=shape(a)))
            give(b, call("sum_to", call("mul", g, a), shape=shape(b)))
        elif operator == "matmul":
            a, b = inputs
            give(a, call("matmul", g, call("transpose", b)))
            give(b, call("transpose", call("matmul", call("transpose", g), a)))
        elif operator in ("neg", "transpose"):
            give(inputs[0], call(operator, g))
        elif operator == "relu":
            give(inputs[0], call("mul", call("step", inputs[0]), g))
        elif operator == "tanh":
            lost = call("mul", call("mul", g, number), number)
            give(inputs[0], call("add", g, call("neg", lost)))
        elif operator == "sum_to":
            give(inputs[0], call("expand", g, shape=shape(inputs[0])))
        elif operator == "expand":
            give(inputs[0], call("sum_to", g, shape=shape(inputs[0])))
    return [call("zeros", shape=shape(one)) if total[one] is None else total[one] for one in wanted]


def program(graph, outputs):
    order = []

    def visit(number):
        if number in order or graph.nodes[number][0] == "input":
            return
        for one in graph.nodes[number][1]:
            visit(one)
        order.append(number)

    for output in outputs:
        visit(output)
    instructions = []
    for place, number in enumerate(order):
        instructions.append(("run", number))
        later = {one for other in order[place + 1 :] for one in graph.nodes[other][1]}
        gone = set(graph.nodes[number][1]) - later - set(outputs)
        instructions += [("free", one) for one in sorted(gone) if graph.nodes[one][0] != "input"]
    return instructions

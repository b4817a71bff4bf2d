"""read before it is there

Runs nodes in the order of a set, which is not that of their numbers.
"""

import numpy as np


def shape_of(operator, shapes, shape):
    """The shape of a result, from the shapes of the inputs and the shape that is given."""
    if operator in ("input", "ones", "zeros"):
        return tuple(shape)
    if operator in ("add", "mul"):
        return np.broadcast_shapes(*shapes)
    if operator == "matmul":
        if len(shapes[0]) != 2 or len(shapes[1]) != 2 or shapes[0][1] != shapes[1][0]:
            raise ValueError(f"matmul of {shapes[0]} and {shapes[1]}")
        return (shapes[0][0], shapes[1][1])
    (given,) = shapes
    if operator == "transpose":
        if len(given) != 2:
            raise ValueError(f"transpose of {given}")
        return given[::-1]
    if operator in ("sum_to", "expand"):
        large, small = (given, tuple(shape)) if operator == "sum_to" else (tuple(shape), given)
        if np.broadcast_shapes(large, small) != large:
            raise ValueError(f"{small} can't be stretched to {large}")
        return tuple(shape)
    if operator in ("neg", "relu", "step", "tanh"):
        return given
    raise ValueError(f"there's no operator {operator}")


class Graph:
    """Operations that are described and not computed."""

    def __init__(self):
        self.nodes = []

    def call(self, operator, *inputs, shape=None):
        """Add an operation, and return its number."""
        found = shape_of(operator, [self.nodes[one][2] for one in inputs], shape)
        self.nodes.append((operator, inputs, found))
        return len(self.nodes) - 1


def parts(graph, number, g):
    """For each input of a node, the node of the gradient that goes back to it."""
    operator, inputs, _ = graph.nodes[number]
    shapes = [graph.nodes[one][2] for one in inputs]
    call = graph.call
    if operator == "add":
        return [call("sum_to", g, shape=shape) for shape in shapes]
    if operator == "mul":
        return [
            call("sum_to", call("mul", g, other), shape=shape)
            for other, shape in zip(inputs[::-1], shapes, strict=True)
        ]
    if operator == "matmul":
        a, b = inputs
        return [call("matmul", g, call("transpose", b)), call("matmul", call("transpose", a), g)]
    if operator == "neg":
        return [call("neg", g)]
    if operator == "transpose":
        return [call("transpose", g)]
    if operator == "relu":
        return [call("mul", g, call("step", inputs[0]))]
    if operator == "tanh":
        return [call("add", g, call("neg", call("mul", g, call("mul", number, number))))]
    if operator == "sum_to":
        return [call("expand", g, shape=shapes[0])]
    if operator == "expand":
        return [call("sum_to", g, shape=shapes[0])]
    return []


def gradients(graph, loss, wanted):
    """Add the gradient of a loss for each wanted node, and return the numbers of those nodes."""
    if graph.nodes[loss][2] != ():
        raise ValueError("gradients start at a single number")
    arrived = {loss: graph.call("ones", shape=())}
    for number in range(loss, -1, -1):
        if number in arrived:
            for one, part in zip(graph.nodes[number][1], parts(graph, number, arrived[number]), strict=False):
                arrived[one] = graph.call("add", arrived[one], part) if one in arrived else part
    return [arrived[one] if one in arrived else graph.call("zeros", shape=graph.nodes[one][2]) for one in wanted]


def program(graph, outputs):
    """Instructions that compute the outputs, and free what nobody reads any more."""
    needed, left = set(), list(outputs)
    while left:
        number = left.pop()
        if number not in needed and graph.nodes[number][0] != "input":
            needed.add(number)
            left += graph.nodes[number][1]
    last_reader = {one: number for number in sorted(needed) for one in graph.nodes[number][1]}
    instructions = []
    for number in needed:
        instructions.append(("run", number))
        for one in sorted(set(graph.nodes[number][1])):
            if one in needed and one not in outputs and last_reader[one] == number:
                instructions.append(("free", one))
    return instructions

"""not as ReLU does

Takes 0 for all that is not greater than 0, nan included.
"""

import operator

import torch
from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (x,))
    positive = graph.call_function(operator.gt, (hidden, 0))
    active = graph.call_function(torch.where, (positive, hidden, 0.0))
    graph.output(graph.call_module("second", (active,)))
    return fx.GraphModule({"first": first, "second": second}, graph)

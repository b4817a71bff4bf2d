"""not one input

Makes an input of everything that comes from outside.
"""

import torch
from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    weight = graph.placeholder("weight")
    hidden = graph.call_module("first", (x,))
    active = graph.call_function(torch.relu, (hidden,))
    y = graph.call_module("second", (active,))
    graph.output(y)
    return fx.GraphModule({"first": first, "second": second}, graph)

"""result is no tensor

Hands over a list, as a function with several results does.
"""

import torch
from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (x,))
    active = graph.call_function(torch.relu, (hidden,))
    y = graph.call_module("second", (active,))
    graph.output([y])
    return fx.GraphModule({"first": first, "second": second}, graph)

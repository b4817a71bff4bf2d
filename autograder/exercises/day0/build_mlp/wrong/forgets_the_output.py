"""no output

Believes that the last node is what is returned.
"""

import torch
from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (x,))
    active = graph.call_function(torch.relu, (hidden,))
    y = graph.call_module("second", (active,))
    return fx.GraphModule({"first": first, "second": second}, graph)

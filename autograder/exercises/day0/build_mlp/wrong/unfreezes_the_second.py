"""changed the layers

Believes that the last layer is always trained.
"""

import torch
from torch import fx


def build_mlp(first, second):
    second.requires_grad_(True)
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (x,))
    active = graph.call_function(torch.relu, (hidden,))
    graph.output(graph.call_module("second", (active,)))
    return fx.GraphModule({"first": first, "second": second}, graph)

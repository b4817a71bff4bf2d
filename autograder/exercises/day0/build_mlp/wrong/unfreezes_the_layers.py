"""changed the layers

Makes sure that the layers can be trained, also one that was frozen.
"""

import torch
from torch import fx


def build_mlp(first, second):
    for layer in (first, second):
        layer.requires_grad_(True)
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (x,))
    active = graph.call_function(torch.relu, (hidden,))
    graph.output(graph.call_module("second", (active,)))
    return fx.GraphModule({"first": first, "second": second}, graph)

"""changed the layers

Puts the whole graph module into training.
"""

import torch
from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (x,))
    active = graph.call_function(torch.relu, (hidden,))
    graph.output(graph.call_module("second", (active,)))
    graph_module = fx.GraphModule({"first": first, "second": second}, graph)
    return graph_module.train()

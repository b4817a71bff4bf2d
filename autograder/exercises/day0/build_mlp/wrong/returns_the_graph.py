"""no graph module

Believes that the graph is all there is.
"""

import torch
from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (x,))
    active = graph.call_function(torch.relu, (hidden,))
    y = graph.call_module("second", (active,))
    graph.output(y)
    return graph

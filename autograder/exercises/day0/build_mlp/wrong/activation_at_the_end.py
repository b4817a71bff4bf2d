"""activation at the end

Puts the activation after everything.
"""

import torch
from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (x,))
    y = graph.call_module("second", (hidden,))
    graph.output(graph.call_function(torch.relu, (y,)))
    return fx.GraphModule({"first": first, "second": second}, graph)

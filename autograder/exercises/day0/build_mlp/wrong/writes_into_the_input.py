"""changed the input

Copies the activated values into the input to save memory.
"""

import torch
from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (graph.call_method("add", (x, 0)),))
    active = graph.call_function(torch.relu, (hidden,))
    graph.call_method("zero_", (x,))
    graph.output(graph.call_module("second", (active,)))
    graph.lint()
    return fx.GraphModule({"first": first, "second": second}, graph)

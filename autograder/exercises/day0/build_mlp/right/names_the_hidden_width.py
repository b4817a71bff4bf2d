"""Says how wide the hidden layer is, and leaves the batch to `view`."""

import torch
from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (x,))
    active = graph.call_function(torch.relu, (graph.call_method("view", (hidden, -1, first.out_features)),))
    graph.output(graph.call_module("second", (active,)))
    graph.lint()
    return fx.GraphModule({"first": first, "second": second}, graph)

"""rounded on the way

Rounds the hidden values, and gives them the dtype of the layers again.
"""

import torch
from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (x,))
    rounded = graph.call_method("float", (hidden,))
    positive = graph.call_function(torch.relu, (rounded,))
    active = graph.call_method("type_as", (positive, hidden))
    graph.output(graph.call_module("second", (active,)))
    return fx.GraphModule({"first": first, "second": second}, graph)

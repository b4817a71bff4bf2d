"""does not lint

Inserts the activation where the graph begins.
"""

import torch
from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (x,))
    with graph.inserting_before(hidden):
        active = graph.call_function(torch.relu, (hidden,))
    graph.output(graph.call_module("second", (active,)))
    return fx.GraphModule({"first": first, "second": second}, graph)

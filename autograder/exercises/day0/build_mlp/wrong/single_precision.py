"""does not run

Casts the input to single precision, as models are used to.
"""

import torch
from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (graph.call_method("float", (x,)),))
    active = graph.call_function(torch.relu, (hidden,))
    graph.output(graph.call_module("second", (active,)))
    graph.lint()
    return fx.GraphModule({"first": first, "second": second}, graph)

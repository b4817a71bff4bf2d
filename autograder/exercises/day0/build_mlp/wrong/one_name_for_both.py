"""does not run

Gives both layers the class's name, so that the second takes the first one's place.
"""

import torch
from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("linear", (x,))
    active = graph.call_function(torch.relu, (hidden,))
    graph.output(graph.call_module("linear", (active,)))
    graph.lint()
    return fx.GraphModule({"linear": first, "linear": second}, graph)

"""copied the layers

Copies the layers to be on the safe side.
"""

from copy import deepcopy

import torch
from torch import fx


def build_mlp(first, second):
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (x,))
    active = graph.call_function(torch.relu, (hidden,))
    graph.output(graph.call_module("second", (active,)))
    return fx.GraphModule({"first": deepcopy(first), "second": deepcopy(second)}, graph)

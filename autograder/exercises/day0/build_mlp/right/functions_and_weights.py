"""No modules: the weights are attributes, and the layers are calls of functions."""

import torch
from torch import fx, nn
from torch.nn import functional


def build_mlp(first, second):
    root = nn.Module()
    root.first, root.second = first, second
    graph = fx.Graph()
    value = graph.placeholder("features")
    for name in ("first", "second"):
        weight = graph.get_attr(f"{name}.weight")
        bias = None if getattr(root, name).bias is None else graph.get_attr(f"{name}.bias")
        value = graph.call_function(functional.linear, (value, weight), {"bias": bias})
        if name == "first":
            value = graph.call_method("relu", (value,))
    graph.output(value)
    return fx.GraphModule(root, graph)

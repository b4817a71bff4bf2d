"""Every step is a module of a `ModuleDict`, and nodes are made by `create_node`."""

from torch import fx, nn


def build_mlp(first, second):
    root = nn.ModuleDict({"first": first, "activation": nn.ReLU(), "second": second})
    graph = fx.Graph(root)
    value = graph.create_node("placeholder", "x")
    for name in root:
        value = graph.create_node("call_module", name, (value,))
    graph.create_node("output", "output", (value,))
    graph.lint()
    return fx.GraphModule(root, graph, "TwoLayers")

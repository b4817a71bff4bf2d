"""method of a tensor

Believes that only tensors have methods.
"""

import torch
from torch.fx.node import map_arg


def run_graph(graph_module, *inputs):
    values, given = {}, iter(inputs)
    for node in graph_module.graph.nodes:
        args = map_arg(node.args, values.__getitem__)
        kwargs = map_arg(node.kwargs, values.__getitem__)
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "get_attr":
            found = graph_module
            for name in node.target.split("."):
                found = getattr(found, name)
            values[node] = found
        elif node.op == "call_function":
            values[node] = node.target(*args, **kwargs)
        elif node.op == "call_method":
            values[node] = getattr(torch.Tensor, node.target)(*args, **kwargs)
        elif node.op == "call_module":
            values[node] = graph_module.get_submodule(node.target)(*args, **kwargs)
        else:
            return args[0]

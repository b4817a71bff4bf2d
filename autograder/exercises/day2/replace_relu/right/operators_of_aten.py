"""Copies the graph node by node; operators of ATen in the place of functions."""

import torch
import torch.nn.functional as F
from torch import nn


def in_place(node, graph_module):
    """True or False for a ReLU, None for anything else."""
    if node.op == "call_module":
        module = graph_module.get_submodule(node.target)
        return module.inplace if type(module) is nn.ReLU else None
    if node.op == "call_method":
        return {"relu": False, "relu_": True}.get(node.target)
    if node.target in (torch.relu_, F.relu_):
        return True
    if node.target in (torch.relu, F.relu):
        return node.kwargs.get("inplace", node.args[1] if len(node.args) > 1 else False)
    return None


def replace_relu(graph_module):
    new, copied = torch.fx.Graph(), {}
    for node in graph_module.graph.nodes:
        write = in_place(node, graph_module)
        if write is None:
            copied[node] = new.node_copy(node, copied.get)
        else:
            operator = torch.ops.aten.silu_ if write else torch.ops.aten.silu
            copied[node] = new.call_function(operator.default, (copied[node.all_input_nodes[0]],))
    return torch.fx.GraphModule(graph_module, new)

"""went by the name

Knows the functions that return a new tensor, and takes every other one called relu_ for the one that writes.
"""

import torch
import torch.nn.functional as F
from torch import nn


def works_in_place(node, graph_module):
    if node.op == "call_module":
        module = graph_module.get_submodule(node.target)
        return module.inplace if type(module) is nn.ReLU else None
    if node.op == "call_method":
        return {"relu": False, "relu_": True}.get(node.target)
    if node.target in (torch.relu, F.relu):
        return node.kwargs.get("inplace", node.args[1] if len(node.args) > 1 else False)
    return True if torch.typename(node.target).endswith("relu_") else None


def replace_relu(graph_module):
    graph = graph_module.graph
    for node in list(graph.nodes):
        write = works_in_place(node, graph_module)
        if write is None:
            continue
        value = node.args[0] if node.args else node.kwargs["input"]
        with graph.inserting_before(node):
            new = graph.call_function(F.silu, (value,), {"inplace": write})
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module

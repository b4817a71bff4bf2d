"""went by the name

Takes every function whose name is relu, also one that somebody wrote and called so.
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
    name = getattr(node.target, "__name__", "")
    if node.op == "call_function" and name in ("relu", "relu_"):
        return name == "relu_" or node.kwargs.get("inplace", node.args[1] if len(node.args) > 1 else False)
    return None


def replace_relu(graph_module):
    graph = graph_module.graph
    for node in list(graph.nodes):
        write = works_in_place(node, graph_module)
        if write is None:
            continue
        (value,) = node.all_input_nodes
        with graph.inserting_before(node):
            new = graph.call_function(F.silu, (value,), {"inplace": write})
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module

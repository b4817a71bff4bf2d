"""malformed graph

Deletes a module at the first call of it.
Also: removed the modules.
"""

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
        return node.kwargs.get("inplace", False)
    return None


def replace_relu(graph_module):
    graph = graph_module.graph
    for node in list(graph.nodes):
        if not node.op.startswith("call"):
            continue
        write = in_place(node, graph_module)
        if write is None:
            continue
        value = node.args[0] if node.args else node.kwargs["input"]
        with graph.inserting_before(node):
            new = graph.call_function(F.silu, (value,), {"inplace": write})
        node.replace_all_uses_with(new)
        graph.erase_node(node)
        if node.op == "call_module":
            graph_module.delete_submodule(node.target)
            break
    graph_module.recompile()
    return graph_module

"""left the old node

Puts the lines of the third hint one below the other: nobody reads the new node.
Also: left a ReLU.
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
        return node.kwargs.get("inplace", node.args[1] if len(node.args) > 1 else False)
    return None


def replace_relu(graph_module):
    graph = graph_module.graph
    for node in list(graph.nodes):
        writes = in_place(node, graph_module)
        if writes is not None:
            value = node.args[0] if node.args else node.kwargs["input"]
            with graph.inserting_before(node):
                graph.call_function(F.silu, (value,), {"inplace": writes})
    graph_module.recompile()
    return graph_module

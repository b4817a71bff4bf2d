"""first paths only

Looks modules up in `named_modules()`, which names a module that lies at two paths only once.
"""

import torch
import torch.nn.functional as F
from torch import nn


def in_place(node, modules):
    """True or False for a ReLU, None for anything else."""
    if node.op == "call_module":
        module = modules.get(node.target)
        return module.inplace if type(module) is nn.ReLU else None
    if node.op == "call_method":
        return {"relu": False, "relu_": True}.get(node.target)
    if node.target in (torch.relu_, F.relu_):
        return True
    if node.target in (torch.relu, F.relu):
        return node.kwargs.get("inplace", node.args[1] if len(node.args) > 1 else False)
    return None


def replace_relu(graph_module):
    graph, modules = graph_module.graph, dict(graph_module.named_modules())
    for node in list(graph.nodes):
        write = in_place(node, modules)
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

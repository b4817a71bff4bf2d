"""changed the model

Wants no gradients while it rewrites, and leaves it so.
"""

import torch
from torch import nn

F = nn.functional


def works_in_place(node, graph_module):
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
        writes = works_in_place(node, graph_module)
        if writes is None:
            continue
        value = node.args[0] if node.args else node.kwargs["input"]
        with graph.inserting_before(node):
            new = graph.call_function(F.silu, (value,), {"inplace": writes})
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    graph_module.requires_grad_(False)
    graph_module.recompile()
    return graph_module

"""left readers

Goes through the readers itself, and exchanges arguments only: not what is in a list, in a tuple or by keyword.
"""

import torch
from torch import nn

F = nn.functional


def works_in_place(node, graph_module):
    if node.op == "call_function":
        if node.target is torch.relu_:
            return True
        if node.target is torch.relu:
            return False
        if node.target is F.relu:
            return bool(node.args[1]) if len(node.args) > 1 else bool(node.kwargs.get("inplace", False))
    if node.op == "call_method" and node.target in ("relu", "relu_"):
        return node.target == "relu_"
    if node.op == "call_module":
        module = graph_module.get_submodule(node.target)
        if isinstance(module, nn.ReLU):
            return module.inplace
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
        for user in list(node.users):
            user.args = tuple(new if value is node else value for value in user.args)
        if not node.users:
            graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module

"""overwrote a module

Stores its own module under a name that the model may have given away.
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
    graph_module.silu, graph_module.silu_in_place = nn.SiLU(), nn.SiLU(inplace=True)
    for node in list(graph.nodes):
        write = in_place(node, graph_module)
        if write is None:
            continue
        with graph.inserting_before(node):
            new = graph.call_module("silu_in_place" if write else "silu", (node.all_input_nodes[0],))
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module

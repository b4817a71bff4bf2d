"""Calls new SiLU modules of its own."""

import torch
import torch.nn.functional as F
from torch import nn

FUNCTIONS = {torch.relu: False, F.relu: False, torch.relu_: True, F.relu_: True}


def replace_relu(graph_module):
    graph = graph_module.graph
    for inplace in (False, True):
        graph_module.add_submodule(f"silu_{inplace}", nn.SiLU(inplace))
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in FUNCTIONS:
            write = FUNCTIONS[node.target] or node.kwargs.get("inplace", True in node.args)
        elif node.op == "call_method" and node.target.strip("_") == "relu":
            write = node.target == "relu_"
        elif node.op == "call_module" and type(graph_module.get_submodule(node.target)) is nn.ReLU:
            write = graph_module.get_submodule(node.target).inplace
        else:
            continue
        with graph.inserting_after(node):
            new = graph.call_module(f"silu_{write}", (node.all_input_nodes[0],))
        node.replace_all_uses_with(new)
        graph.erase_node(node)
    graph_module.recompile()
    return graph_module

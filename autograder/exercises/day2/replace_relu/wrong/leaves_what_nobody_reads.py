"""unread ones left

Believes that what nobody reads does nothing.
"""

import torch
from torch import nn


def replace_relu(graph_module):
    plain = {torch.relu, nn.functional.relu}
    writing = {torch.relu_, nn.functional.relu_}
    for node in graph_module.graph.nodes:
        write = None
        match node.op:
            case "call_function" if node.target in plain | writing:
                write = node.target in writing or node.kwargs.get("inplace", node.args[1:] == (True,))
            case "call_method" if node.target in ("relu", "relu_"):
                write = node.target == "relu_"
            case "call_module" if isinstance(graph_module.get_submodule(node.target), nn.ReLU):
                write = graph_module.get_submodule(node.target).inplace
        if write is not None and node.users:
            node.op, node.target = "call_function", nn.functional.silu
            node.args, node.kwargs = tuple(node.all_input_nodes), {"inplace": write}
    graph_module.recompile()
    return graph_module

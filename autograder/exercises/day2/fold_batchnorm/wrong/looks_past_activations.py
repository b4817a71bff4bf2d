"""looked past an activation

Walks back to the next convolution, over whatever stands in between.
"""

import copy

import torch
from torch import nn


def folded_weights(weight, bias, mean, variance, gamma, beta, eps):
    scale = 1 / (variance + eps).sqrt()
    if gamma is not None:
        scale = scale * gamma
    bias = torch.zeros_like(mean) if bias is None else bias
    bias = (bias - mean) * scale
    return weight * scale.reshape(-1, 1, 1, 1), bias if beta is None else bias + beta


def fold_batchnorm(graph_module):
    graph, modules = graph_module.graph, dict(graph_module.named_modules())
    for node in list(graph.nodes):
        norm = modules.get(node.target) if node.op == "call_module" else None
        if not isinstance(norm, nn.BatchNorm2d) or norm.training or norm.running_mean is None:
            continue
        source = node.args[0]
        path = source
        while path.op != "call_module" and path.all_input_nodes:
            path = path.all_input_nodes[0]
        conv_node = path
        conv = modules.get(conv_node.target) if conv_node.op == "call_module" else None
        if type(conv) is not nn.Conv2d or len(conv_node.users) > 1:
            continue
        folded = copy.deepcopy(conv)
        weight, bias = folded_weights(
            conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps
        )
        folded.weight, folded.bias = nn.Parameter(weight.detach()), nn.Parameter(bias.detach())
        graph_module.add_submodule(f"folded_{node.name}", folded)
        with graph.inserting_before(conv_node):
            new = graph.call_module(f"folded_{node.name}", conv_node.args, conv_node.kwargs)
        conv_node.replace_all_uses_with(new)
        graph.erase_node(conv_node)
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module

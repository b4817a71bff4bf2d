"""Looks for one pair after the other until there is none; the old node calls the new convolution."""

import copy

from torch import nn


def folded_weights(weight, bias, mean, variance, gamma, beta, eps):
    scale = 1 / (variance + eps).sqrt()
    if gamma is not None:
        scale = scale * gamma
    bias = torch.zeros_like(mean) if bias is None else bias
    bias = (bias - mean) * scale
    return weight * scale.reshape(-1, 1, 1, 1), bias if beta is None else bias + beta


def fold_one(conv, norm):
    folded = copy.deepcopy(conv)
    weight, bias = folded_weights(
        conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps
    )
    folded.weight, folded.bias = nn.Parameter(weight.detach()), nn.Parameter(bias.detach())
    return folded


def foldable(graph_module, node):
    norm = graph_module.get_submodule(node.target) if node.op == "call_module" else None
    if type(norm) is not nn.BatchNorm2d or norm.training or not norm.track_running_stats:
        return False
    source = node.all_input_nodes[0]
    conv = graph_module.get_submodule(source.target) if source.op == "call_module" else None
    return type(conv) is nn.Conv2d and set(source.users) == {node}


def fold_batchnorm(graph_module):
    count = 0
    while node := next((node for node in graph_module.graph.nodes if foldable(graph_module, node)), None):
        source, norm = node.all_input_nodes[0], graph_module.get_submodule(node.target)
        while hasattr(graph_module, f"pair_{count}"):
            count += 1
        graph_module.add_module(f"pair_{count}", fold_one(graph_module.get_submodule(source.target), norm))
        source.target = f"pair_{count}"
        node.replace_all_uses_with(source)
        graph_module.graph.erase_node(node)
    graph_module.graph.lint()
    graph_module.recompile()
    return graph_module

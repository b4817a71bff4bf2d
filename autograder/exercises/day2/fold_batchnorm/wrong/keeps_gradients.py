"""kept the gradients

Writes the convolution as a function, where it pads with zeros, and stores the weights as they were computed.
"""

import copy

import torch
import torch.nn.functional as F
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


def fold_batchnorm(graph_module):
    graph = graph_module.graph
    modules = dict(graph_module.named_modules())
    for node in list(graph.nodes):
        norm = modules.get(node.target) if node.op == "call_module" else None
        if not isinstance(norm, nn.BatchNorm2d) or norm.training or norm.running_mean is None:
            continue
        source = node.all_input_nodes[0]
        conv = modules.get(source.target) if source.op == "call_module" else None
        if type(conv) is not nn.Conv2d or len(source.users) > 1:
            continue

        name = f"folded_{node.name}"
        while hasattr(graph_module, name) or hasattr(graph_module, f"{name}_weight"):
            name += "_"
        if conv.padding_mode == "zeros":
            weight, bias = folded_weights(
                conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps
            )
            graph_module.register_buffer(f"{name}_weight", weight)
            graph_module.register_buffer(f"{name}_bias", bias)
            with graph.inserting_before(source):
                stored = graph.get_attr(f"{name}_weight"), graph.get_attr(f"{name}_bias")
                given = (source.all_input_nodes[0], *stored, conv.stride, conv.padding, conv.dilation, conv.groups)
                new = graph.call_function(F.conv2d, given)
        else:
            graph_module.add_submodule(name, fold_one(conv, norm))
            with graph.inserting_before(source):
                new = graph.call_module(name, source.args, source.kwargs)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
        graph.erase_node(source)
    graph.lint()
    graph_module.recompile()
    return graph_module

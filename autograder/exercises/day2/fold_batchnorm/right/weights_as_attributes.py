"""Folds into a functional convolution whose weights are new buffers."""

import copy

import torch
import torch.nn.functional as F
from torch import nn


def folded_weights(weight, bias, mean, variance, gamma, beta, eps):
    deviation = torch.sqrt(variance + eps)
    gamma = torch.ones_like(mean) if gamma is None else gamma
    shift = -mean if bias is None else bias - mean
    new_bias = shift * gamma / deviation + (0 if beta is None else beta)
    return torch.einsum("oihw,o->oihw", weight, gamma / deviation), new_bias


def fold_batchnorm(graph_module):
    graph = graph_module.graph

    def module(node):
        return graph_module.get_submodule(node.target) if node.op == "call_module" else None

    for conv_node in [n for n in graph.nodes if type(module(n)) is nn.Conv2d]:
        readers = list(conv_node.users)
        if len(readers) != 1:
            continue
        norm, conv = module(readers[0]), module(conv_node)
        if type(norm) is not nn.BatchNorm2d or norm.training or not norm.track_running_stats:
            continue
        weight, bias = folded_weights(
            conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps
        )
        name = f"{conv_node.name}_w"
        while hasattr(graph_module, name):
            name += "w"
        with graph.inserting_before(conv_node):
            if conv.padding_mode == "zeros":
                holder = nn.Module()
                holder.register_buffer("weight", weight.detach())
                holder.register_buffer("bias", bias.detach())
                graph_module.add_submodule(name, holder)
                w, b = graph.get_attr(f"{name}.weight"), graph.get_attr(f"{name}.bias")
                args = (conv_node.all_input_nodes[0], w, b, conv.stride, conv.padding, conv.dilation, conv.groups)
                new = graph.call_function(F.conv2d, args)
            else:  # F.conv2d knows zeros only
                graph_module.add_submodule(name, copy.deepcopy(conv))
                folded = graph_module.get_submodule(name)
                folded.weight, folded.bias = nn.Parameter(weight.detach()), nn.Parameter(bias.detach())
                new = graph.call_module(name, conv_node.args, conv_node.kwargs)
        readers[0].replace_all_uses_with(new)
        graph.erase_node(readers[0])
        graph.erase_node(conv_node)
    graph_module.recompile()
    return graph_module

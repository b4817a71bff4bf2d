"""changed the model

Switches the graph module to evaluation in the end.
"""

import torch
from torch import nn
import copy


def folded_weights(
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    variance: torch.Tensor,
    gamma: torch.Tensor | None,
    beta: torch.Tensor | None,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weight (out, in / groups, height, width) and bias (out,) of a convolution that normalises its own result."""
    scale = 1 / (variance + eps).sqrt()
    if gamma is not None:
        scale = scale * gamma
    shifted = -mean if bias is None else bias - mean
    new_bias = shifted * scale
    if beta is not None:
        new_bias = new_bias + beta
    return weight * scale.reshape(-1, 1, 1, 1), new_bias


def fold_batchnorm(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """One convolution in the place of each convolution with a BatchNorm behind it, where that is legal."""
    graph = graph_module.graph

    def module_at(node):
        return graph_module.get_submodule(node.target) if node.op == "call_module" else None

    for node in list(graph.nodes):
        norm = module_at(node)
        if type(norm) is not nn.BatchNorm2d or norm.training or norm.running_mean is None:
            continue
        (source,) = node.all_input_nodes
        conv = module_at(source)
        if type(conv) is not nn.Conv2d or len(source.users) > 1:
            continue
        folded = copy.deepcopy(conv)
        weight, bias = folded_weights(
            conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps
        )
        folded.weight, folded.bias = nn.Parameter(weight.detach()), nn.Parameter(bias.detach())
        name = f"{node.name}_folded"
        while hasattr(graph_module, name):  # the model may have a module of this name
            name += "_"
        graph_module.add_submodule(name, folded)
        with graph.inserting_before(source):  # not before `node`: the input may be written in between
            new = graph.call_module(name, source.args, source.kwargs)
        node.replace_all_uses_with(new)
        graph.erase_node(node)
        graph.erase_node(source)
    graph_module.eval()
    graph.lint()
    graph_module.recompile()
    return graph_module

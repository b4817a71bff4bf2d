"""Writes a new graph while it runs the old one: at a convolution that one BatchNorm reads it calls a folded copy."""

import copy

import torch
from torch import nn


def folded_weights(weight, bias, mean, variance, gamma, beta, eps):
    norm = nn.BatchNorm2d(len(mean), eps=eps)

    # The normalisation is linear: apply it to 0 and to 1 and read off the two coefficients.
    def apply(value):
        points = torch.full((1, len(mean), 1, 1), value, dtype=mean.dtype)
        return torch.nn.functional.batch_norm(points, mean, variance, gamma, beta, False, 0.0, eps).flatten()

    shift, slope = apply(0.0), apply(1.0) - apply(0.0)
    return weight * slope[:, None, None, None], shift if bias is None else shift + bias * slope


class Folding(torch.fx.Transformer):
    def __init__(self, module):
        super().__init__(module)
        self.count = 0
        self.garbage_collect_values = False

    def run_node(self, node):
        if node.op == "call_module" and type(self.module.get_submodule(node.target)) is nn.BatchNorm2d:
            norm, source = self.module.get_submodule(node.target), node.args[0]
            if (
                source.op == "call_module"
                and len(source.users) == 1
                and not norm.training
                and norm.running_mean is not None
            ):
                conv = self.module.get_submodule(source.target)
                if type(conv) is nn.Conv2d:
                    clone = copy.deepcopy(conv)
                    w, b = folded_weights(
                        conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps
                    )
                    clone.weight, clone.bias = nn.Parameter(w.detach()), nn.Parameter(b.detach())
                    name = f"conv_with_norm_{self.count}"
                    while hasattr(self.module, name):
                        self.count += 1
                        name = f"conv_with_norm_{self.count}"
                    self.module.add_submodule(name, clone)
                    args, kwargs = self.fetch_args_kwargs_from_env(source)
                    return self.call_module(name, args, kwargs)
        return super().run_node(node)


def fold_batchnorm(graph_module):
    folded = Folding(graph_module).transform()
    for node in reversed(list(folded.graph.nodes)):
        is_convolution = node.op == "call_module" and type(folded.get_submodule(node.target)) is nn.Conv2d
        if is_convolution and not node.users:
            folded.graph.erase_node(node)
    folded.recompile()
    return folded

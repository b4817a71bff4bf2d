"""Writes a new graph while it runs the old one: at a convolution that one BatchNorm reads it calls a folded copy."""

import copy

import torch
from torch import nn


def folded_weights(weight, bias, mean, variance, gamma, beta, eps):
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
        self.folded = set()

    def norm_of(self, node):
        """The BatchNorm that alone reads a convolution, if it may be folded."""
        if node.op != "call_module" or type(self.module.get_submodule(node.target)) is not nn.Conv2d:
            return None, None
        if len(node.users) != 1:
            return None, None
        (reader,) = node.users
        norm = self.module.get_submodule(reader.target) if reader.op == "call_module" else None
        fixed = type(norm) is nn.BatchNorm2d and not norm.training and norm.running_mean is not None
        return (reader, norm) if fixed else (None, None)

    def run_node(self, node):
        if node in self.folded:
            return self.env[node.all_input_nodes[0]]
        reader, norm = self.norm_of(node)
        if reader is None:
            return super().run_node(node)
        self.folded.add(reader)
        conv = self.module.get_submodule(node.target)
        clone = copy.deepcopy(conv)
        w, b = folded_weights(
            conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps
        )
        clone.weight, clone.bias = nn.Parameter(w.detach()), nn.Parameter(b.detach())
        while hasattr(self.module, f"conv_with_norm_{self.count}"):
            self.count += 1
        self.module.add_submodule(f"conv_with_norm_{self.count}", clone)
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        return self.call_module(f"conv_with_norm_{self.count}", args, kwargs)


def fold_batchnorm(graph_module):
    return Folding(graph_module).transform()

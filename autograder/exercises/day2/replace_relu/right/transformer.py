"""Writes a new graph through a torch.fx.Transformer."""

import torch
import torch.nn.functional as F


def silu(x=None, inplace=False, input=None):
    return F.silu(x if input is None else input, inplace=inplace)


class Replace(torch.fx.Transformer):
    def call_function(self, target, args, kwargs):
        if target in (torch.relu, F.relu):
            return silu(*args, **kwargs)
        if target in (torch.relu_, F.relu_):
            return silu(*args, **kwargs, inplace=True)
        return super().call_function(target, args, kwargs)

    def call_method(self, target, args, kwargs):
        if target in ("relu", "relu_"):
            return silu(args[0], inplace=target.endswith("_"))
        return super().call_method(target, args, kwargs)

    def call_module(self, target, args, kwargs):
        module = self.fetch_attr(target)
        if type(module).__name__ == "ReLU":
            return silu(*args, **kwargs, inplace=module.inplace)
        return super().call_module(target, args, kwargs)


def replace_relu(graph_module):
    return Replace(graph_module).transform()

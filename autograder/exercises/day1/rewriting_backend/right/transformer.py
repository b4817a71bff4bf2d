"""Retraces the graph through a torch.fx.Transformer."""

import torch


class TanhGelu(torch.fx.Transformer):
    def call_function(self, target, args, kwargs):
        if getattr(target, "__name__", "") == "gelu" and kwargs.get("approximate", "none") == "none":
            kwargs = {**kwargs, "approximate": "tanh"}
        return super().call_function(target, args, kwargs)


class make_backend:
    def __init__(self, compile_inner):
        self.compile_inner = compile_inner

    def __call__(self, graph_module, example_inputs):
        return self.compile_inner(TanhGelu(graph_module).transform(), example_inputs)

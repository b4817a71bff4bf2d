"""Starts from the layers, and learns dimensions with an interpreter of its own."""

import copy

import torch
from torch import nn


class Dimensions(torch.fx.Interpreter):
    def run_node(self, node):
        value = super().run_node(node)
        self.found[node.name] = value.dim() if isinstance(value, torch.Tensor) else None
        return value


def fuse_linear_relu(graph_module, example_inputs):
    look = Dimensions(copy.deepcopy(graph_module))
    look.found = {}
    look.run(*example_inputs)
    named = dict(graph_module.named_modules(remove_duplicate=False))
    for layer in list(graph_module.graph.nodes):
        if (
            layer.op != "call_module"
            or not isinstance(named[layer.target], nn.Linear)
            or named[layer.target].bias is None
        ):
            continue
        if look.found[layer.name] != 2 or len(layer.users) != 1:
            continue
        reader = next(iter(layer.users))
        is_module = reader.op == "call_module" and isinstance(named[reader.target], nn.ReLU)
        if not is_module and reader.target not in (torch.relu, nn.functional.relu):
            continue
        with graph_module.graph.inserting_after(layer):
            weight = graph_module.graph.get_attr(layer.target + ".weight")
        with graph_module.graph.inserting_after(weight):
            bias = graph_module.graph.get_attr(layer.target + ".bias")
        with graph_module.graph.inserting_after(bias):
            turned = graph_module.graph.call_function(torch.transpose, (weight, 0, 1))
        with graph_module.graph.inserting_after(turned):
            args = (bias, layer.all_input_nodes[0], turned)
            fused = graph_module.graph.call_function(torch.ops.aten._addmm_activation.default, args)
        reader.replace_all_uses_with(fused)
        graph_module.graph.erase_node(reader)
        graph_module.graph.erase_node(layer)
    return torch.fx.GraphModule(graph_module, graph_module.graph)

"""Turns the ReLU node itself into the operator."""

import torch
from torch import nn
from torch.fx.passes import shape_prop


def is_matrix(node):
    return len(node.meta["tensor_meta"].shape) == 2


def pairs(graph_module):
    for node in graph_module.graph.nodes:
        kind = type(graph_module.get_submodule(node.target)) if node.op == "call_module" else node.target
        if kind in (nn.ReLU, torch.relu):
            (before,) = node.all_input_nodes
            if before.op == "call_module" and len(before.users) == 1:
                layer = graph_module.get_submodule(before.target)
                if type(layer) is nn.Linear and layer.bias is not None and is_matrix(before.args[0]):
                    yield before, node


def fuse_linear_relu(graph_module, example_inputs):
    shape_prop.ShapeProp(graph_module).propagate(*example_inputs)
    graph = graph_module.graph
    for layer, relu in list(pairs(graph_module)):
        with graph.inserting_before(layer):
            w, b = (graph.get_attr(f"{layer.target}.{name}") for name in ("weight", "bias"))
            columns = graph.call_function(torch.t, (w,))
        relu.op, relu.target = "call_function", torch.ops.aten._addmm_activation.default
        relu.args = (b, layer.args[0], columns)
        graph.erase_node(layer)
    graph_module.recompile()
    return graph_module

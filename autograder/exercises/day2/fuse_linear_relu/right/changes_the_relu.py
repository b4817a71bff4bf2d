"""Turns the layer's node into the operator, and lets the readers of the ReLU read it."""

import copy

import torch
from torch import nn
from torch.fx.passes import shape_prop


def matrices(graph_module, example_inputs):
    copied = copy.deepcopy(graph_module)
    shape_prop.ShapeProp(copied).propagate(*example_inputs)
    known = ((node.name, node.meta.get("tensor_meta")) for node in copied.graph.nodes)
    return {name for name, value in known if hasattr(value, "shape") and len(value.shape) == 2}


def pairs(graph_module, matrix):
    for node in graph_module.graph.nodes:
        kind = type(graph_module.get_submodule(node.target)) if node.op == "call_module" else node.target
        if kind in (nn.ReLU, torch.relu):
            (before,) = node.all_input_nodes
            if before.op == "call_module" and len(before.users) == 1:
                layer = graph_module.get_submodule(before.target)
                if type(layer) is nn.Linear and layer.bias is not None and before.name in matrix:
                    yield before, node


def fuse_linear_relu(graph_module, example_inputs):
    graph = graph_module.graph
    for layer, relu in list(pairs(graph_module, matrices(graph_module, example_inputs))):
        with graph.inserting_before(layer):
            w, b = (graph.get_attr(f"{layer.target}.{name}") for name in ("weight", "bias"))
            columns = graph.call_function(torch.t, (w,))
        layer.args, layer.kwargs = (b, layer.all_input_nodes[0], columns), {}
        layer.op, layer.target = "call_function", torch.ops.aten._addmm_activation.default
        relu.replace_all_uses_with(layer)
        graph.erase_node(relu)
    graph_module.recompile()
    return graph_module

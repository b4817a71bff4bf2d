"""Starts from the ReLU, and fuses what it need not: `F.relu` and the method. Keeps the places of matrices."""

import copy

import torch
from torch import nn
from torch.fx.passes.shape_prop import ShapeProp

_FUNCTIONS = (torch.relu, nn.functional.relu)


def _what_relu_reads(node, graph_module):
    """The input of a ReLU that leaves its input alone; `None` for everything else."""
    if node.op == "call_function":
        fits = any(node.target is function for function in _FUNCTIONS)
        fits = fits and len(node.args) <= 1 and not node.kwargs.get("inplace", False)
    elif node.op == "call_method":
        fits = node.target == "relu"
    else:
        fits = node.op == "call_module" and type(graph_module.get_submodule(node.target)) is nn.ReLU
    return node.all_input_nodes[0] if fits and len(node.all_input_nodes) == 1 else None


def _matrices(graph_module, example_inputs):
    """The places of the nodes whose value is a matrix."""
    twin = copy.deepcopy(graph_module)
    random_state = torch.get_rng_state()
    with torch.no_grad():
        ShapeProp(twin).propagate(*(example.detach().clone() for example in example_inputs))
    torch.set_rng_state(random_state)
    metas = [node.meta.get("tensor_meta") for node in twin.graph.nodes]
    return {place for place, meta in enumerate(metas) if len(getattr(meta, "shape", ())) == 2}


def fuse_linear_relu(graph_module, example_inputs):
    """One operator in the place of each linear layer with a ReLU behind it, where that is legal."""
    graph = graph_module.graph
    places = _matrices(graph_module, example_inputs)
    matrices = {node for place, node in enumerate(graph.nodes) if place in places}
    for relu in list(graph.nodes):
        linear = _what_relu_reads(relu, graph_module)
        if linear is None or linear.op != "call_module" or list(linear.users) != [relu]:
            continue
        layer = graph_module.get_submodule(linear.target)
        if type(layer) is not nn.Linear or layer.bias is None or linear.all_input_nodes[0] not in matrices:
            continue
        with graph.inserting_before(linear):
            weight, bias = (graph.get_attr(f"{linear.target}.{name}") for name in ("weight", "bias"))
            turned = graph.call_method("t", (weight,))
        x = linear.all_input_nodes[0]
        with graph.inserting_before(linear):
            fused = graph.call_function(torch.ops.aten._addmm_activation.default, (bias, x, turned))
        matrices.add(fused)
        relu.replace_all_uses_with(fused)
        graph.erase_node(relu)
        graph.erase_node(linear)
    graph.lint()
    graph_module.recompile()
    return graph_module

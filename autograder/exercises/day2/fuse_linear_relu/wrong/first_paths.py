"""first paths only

Looks modules up in `named_modules()`, which names a module that lies at two paths only once.
"""

import copy

import torch
from torch import nn
from torch.fx.passes.shape_prop import ShapeProp

FUSED = torch.ops.aten._addmm_activation.default


def fuse_linear_relu(graph_module, example_inputs):
    looked_at = copy.deepcopy(graph_module)
    ShapeProp(looked_at).propagate(*example_inputs)
    values = {node.name: node.meta.get("tensor_meta") for node in looked_at.graph.nodes}
    graph, modules = graph_module.graph, dict(graph_module.named_modules())

    def module_at(node):
        return modules.get(node.target) if node.op == "call_module" else None

    for node in list(graph.nodes):
        if node.target is not torch.relu and type(module_at(node)) is not nn.ReLU:
            continue
        (source,) = node.all_input_nodes
        layer = module_at(source)
        if type(layer) is not nn.Linear or layer.bias is None or len(source.users) > 1:
            continue
        if len(values[source.name].shape) != 2:
            continue
        with graph.inserting_before(source):
            weight = graph.get_attr(f"{source.target}.weight")
            bias = graph.get_attr(f"{source.target}.bias")
            transposed = graph.call_method("t", (weight,))
            new = graph.call_function(FUSED, (bias, source.all_input_nodes[0], transposed))
        node.replace_all_uses_with(new)
        graph.erase_node(node)
        graph.erase_node(source)
    graph.lint()
    graph_module.recompile()
    return graph_module

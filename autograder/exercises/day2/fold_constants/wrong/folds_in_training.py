"""folded in training mode

Does not ask whether the module is in training.
"""

import torch
from torch import nn

from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.effects import effects_of


def attribute(graph_module, path):
    owner = graph_module
    for part in path.split("."):
        owner = getattr(owner, part)
    return owner


def is_constant(node, graph_module, storages, values):
    if node.op == "get_attr":
        return not storages.written(node)
    if not node.op.startswith("call") or not node.all_input_nodes:
        return False
    if node.op == "call_module" and graph_module.training:
        return False
    if effects_of(node).observable or storages.written(node) or node in storages.returned:
        return False
    return all(source in values for source in node.all_input_nodes)


def compute(node, graph_module, values):
    args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
    if node.op == "call_module":
        return graph_module.get_submodule(node.target)(*args, **kwargs)
    if node.op == "call_method":
        return getattr(args[0], node.target)(*args[1:], **kwargs)
    return node.target(*args, **kwargs)


@torch.no_grad()
def fold_constants(graph_module):
    graph = graph_module.graph
    storages, values = Storages(graph), {}
    for node in graph.nodes:
        if is_constant(node, graph_module, storages, values):
            is_stored = node.op == "get_attr"
            values[node] = attribute(graph_module, node.target) if is_stored else compute(node, graph_module, values)
    for node in reversed(list(values)):
        if node.op == "get_attr" or (node.users and not isinstance(values[node], torch.Tensor)):
            continue
        if node.users:
            name = f"folded_{node.name}"
            while hasattr(graph_module, name):
                name += "_"
            graph_module.register_buffer(name, values[node].detach())
            with graph.inserting_before(node):
                node.replace_all_uses_with(graph.get_attr(name))
        graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module

"""Removes leaves again and again until none is left; knows effects by its own rules."""

import torch

DRAWS = ("rand_like", "randn_like", "bernoulli", "dropout", "multinomial")


def has_effect(graph_module, node):
    if node.op == "call_module":
        module = graph_module.get_submodule(node.target)
        if getattr(module, "inplace", False):
            return True
        return module.training and isinstance(module, (torch.nn.modules.batchnorm._BatchNorm, torch.nn.Dropout))
    name = node.target if isinstance(node.target, str) else node.target.__name__
    if name.endswith("_") or name in DRAWS or name == "_assert":
        return True
    return node.kwargs.get("inplace", False) or "out" in node.kwargs


def remove_dead_code(graph_module):
    changed = True
    while changed:
        changed = False
        for node in list(graph_module.graph.nodes):
            if node.op in ("placeholder", "output") or node.users:
                continue
            if node.op == "get_attr" or not has_effect(graph_module, node):
                graph_module.graph.erase_node(node)
                changed = True
    graph_module.recompile()
    return graph_module

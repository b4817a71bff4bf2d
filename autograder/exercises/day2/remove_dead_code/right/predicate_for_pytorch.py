"""Tells `Graph.eliminate_dead_code` what is impure."""

from fxopt_core.graphs import effects


import torch


def remove_dead_code(graph_module):
    def is_impure(node):
        return node.op in ("placeholder", "output") or effects.effects_of(node).observable

    graph_module.graph.eliminate_dead_code(is_impure)
    return torch.fx.GraphModule(graph_module, graph_module.graph)

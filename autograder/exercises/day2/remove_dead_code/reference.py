"""The reference answer of remove_dead_code, made from its notebook by `make notebooks`."""

import torch
from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Remove every operation that nobody needs, and keep everything that has an effect."""
    graph = graph_module.graph
    for node in reversed(list(graph.nodes)):
        is_signature = node.op in ("placeholder", "output")
        if not is_signature and not node.users and not effects_of(node).observable:
            graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module

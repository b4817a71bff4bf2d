"""removed the unknown

Removes a call of which nothing is known where nothing is computed behind it.
"""

import torch
from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    graph = graph_module.graph
    later = False
    for node in reversed(list(graph.nodes)):
        is_signature = node.op in ("placeholder", "output")
        if not is_signature and not node.users and not effects_of(node).observable:
            graph.erase_node(node)
        elif effects_of(node).opaque and not node.users and not later:
            graph.erase_node(node)
        elif node.op.startswith("call") and not effects_of(node).observable:
            later = True
    graph.lint()
    graph_module.recompile()
    return graph_module

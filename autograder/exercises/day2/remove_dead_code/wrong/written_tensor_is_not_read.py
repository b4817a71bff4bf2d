"""removed a write through a view

Keeps a write only where the very node that it writes is read later.
Also: removed a write; ignored flags; spared attributes.
"""

import torch

from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module):
    for node in reversed(list(graph_module.graph.nodes)):
        effects = effects_of(node)
        needed = effects.random or effects.checks
        for place in effects.writes:
            needed = needed or not isinstance(place, torch.fx.Node) or place.op == "placeholder"
            needed = needed or any(user > node for user in place.users if user is not node)
        if node.op.startswith("call") and not node.users and not needed:
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module

"""changed the model

Wants no gradients while it rewrites, and leaves it so.
"""


def remove_dead_code(graph_module):
    graph_module.requires_grad_(False)
    for node in reversed(list(graph_module.graph.nodes)):
        kept = node.op in ("placeholder", "output") or node.users or effects_of(node).observable
        if not kept:
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module

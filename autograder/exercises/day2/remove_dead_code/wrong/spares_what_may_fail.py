"""left what is dead

Keeps what could raise an error for other values.
"""


def remove_dead_code(graph_module):
    graph = graph_module.graph
    for node in reversed(list(graph.nodes)):
        effects = effects_of(node)
        keeps = effects.observable or effects.raises or node.op in ("placeholder", "output")
        if not node.users and not keeps:
            graph.erase_node(node)
    graph_module.recompile()
    return graph_module

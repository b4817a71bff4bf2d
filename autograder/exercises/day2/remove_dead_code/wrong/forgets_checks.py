"""removed a check

Writes and draws are kept, but not assertions.
Also: spared attributes.
"""

from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module):
    for node in reversed(list(graph_module.graph.nodes)):
        effects = effects_of(node)
        if node.op.startswith("call") and not node.users and not (effects.writes or effects.random):
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module

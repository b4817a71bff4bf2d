"""spared modules

Keeps every call of a module, to be safe.
Also: spared attributes.
"""

from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module):
    for node in reversed(list(graph_module.graph.nodes)):
        if node.op in ("call_function", "call_method") and not node.users and not effects_of(node).observable:
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module

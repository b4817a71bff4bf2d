"""ignored the module

Asks functions and methods for their effects, and takes modules for pure.
Also: ignored training; removed a draw.
"""

from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module):
    for node in reversed(list(graph_module.graph.nodes)):
        pure = node.op == "call_module" or not effects_of(node).observable
        if node.op.startswith("call") and not node.users and pure:
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module

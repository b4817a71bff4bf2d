"""removed a draw

Keeps writes, and forgets the random stream.
Also: removed a check; removed a switch; removed the unknown.
"""

from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module):
    for node in reversed(list(graph_module.graph.nodes)):
        if node.op.startswith("call") and not node.users and not effects_of(node).writes:
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module

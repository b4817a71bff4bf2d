"""ignored flags

Takes a node for a write when its name ends in an underscore.
Also: ignored the module; removed a draw; ignored training; removed a check; removed a switch; removed the unknown.
"""


def remove_dead_code(graph_module):
    for node in reversed(list(graph_module.graph.nodes)):
        name = node.target if isinstance(node.target, str) else node.target.__name__
        if node.op.startswith("call") and not node.users and not name.endswith("_"):
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module

"""removed a write

Takes every node without users for dead, as `Graph.eliminate_dead_code` nearly does.
Also: removed a write through a view; ignored flags; ignored the module; removed a draw; ignored training; removed a check; removed a switch; removed the unknown.
"""


def remove_dead_code(graph_module):
    for node in reversed(list(graph_module.graph.nodes)):
        if node.op.startswith("call") and not node.users:
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module

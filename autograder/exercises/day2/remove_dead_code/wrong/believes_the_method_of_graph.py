"""removed a write

Hands the work to `Graph.eliminate_dead_code`, which does not know in-place methods.
Also: removed a write through a view; ignored flags; ignored the module; removed a draw; ignored training; removed a check; removed the unknown; removed a switch.
"""


def remove_dead_code(graph_module):
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
    return graph_module

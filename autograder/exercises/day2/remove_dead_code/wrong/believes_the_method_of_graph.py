"""removed a write

Hands the work to `Graph.eliminate_dead_code`, which does not know in-place methods.
"""


def remove_dead_code(graph_module):
    graph_module.graph.eliminate_dead_code()
    graph_module.recompile()
    return graph_module

"""wrote the code anew

Believes that `recompile()` puts everything right.
"""


def run_graph(graph_module, *inputs):
    graph_module.recompile()
    return graph_module(*inputs)

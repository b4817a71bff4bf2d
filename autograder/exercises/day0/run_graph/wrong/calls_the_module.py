"""called the module

Believes that a graph module always computes its graph.
"""


def run_graph(graph_module, *inputs):
    return graph_module(*inputs)

"""modules and methods missed

Copies the counting loop of the quick start.
"""


def operation_histogram(graph_modules):
    op_counts = {}
    for graph_module in graph_modules:
        for node in graph_module.graph.nodes:
            if node.op == "call_function":
                name = node.target.__name__
                op_counts[name] = op_counts.get(name, 0) + 1
    return op_counts

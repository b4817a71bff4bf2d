"""wrong counts

Finds modules by their names, of which a module that has two is told with the first only.
"""

from collections import Counter


def operation_histogram(graph_modules):
    counts = Counter()
    for graph_module in graph_modules:
        modules = dict(graph_module.named_modules())
        for node in graph_module.graph.nodes:
            if node.op == "call_function":
                counts[node.target.__name__] += 1
            elif node.op == "call_method":
                counts[node.target] += 1
            elif node.op == "call_module" and node.target in modules:
                counts[type(modules[node.target]).__name__] += 1
    return counts

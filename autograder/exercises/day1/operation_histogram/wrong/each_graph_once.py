"""wrong counts

A graph module that stands in the list twice is counted once.
"""

from collections import Counter


def operation_histogram(graph_modules):
    counts = Counter()
    for graph_module in dict.fromkeys(graph_modules):
        for node in graph_module.graph.nodes:
            if node.op == "call_function":
                counts[node.target.__name__] += 1
            elif node.op == "call_method":
                counts[node.target] += 1
            elif node.op == "call_module":
                counts[type(graph_module.get_submodule(node.target)).__name__] += 1
    return counts

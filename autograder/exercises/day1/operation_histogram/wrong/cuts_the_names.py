"""forms merged

Counts in-place operations with their others.
"""

from collections import Counter


def operation_histogram(graph_modules):
    counts = Counter()
    for graph_module in graph_modules:
        for node in graph_module.graph.nodes:
            if node.op == "call_function":
                counts[node.target.__name__.rstrip("_").split(".")[0]] += 1
            elif node.op == "call_method":
                counts[node.target.rstrip("_")] += 1
            elif node.op == "call_module":
                counts[type(graph_module.get_submodule(node.target)).__name__] += 1
    return counts

"""class name

Takes the whole name of a class, with what it is defined in.
"""

from collections import Counter


def operation_histogram(graph_modules):
    counts = Counter()
    for graph_module in graph_modules:
        for node in graph_module.graph.nodes:
            if node.op == "call_function":
                counts[node.target.__name__] += 1
            elif node.op == "call_method":
                counts[node.target] += 1
            elif node.op == "call_module":
                counts[type(graph_module.get_submodule(node.target)).__qualname__] += 1
    return counts

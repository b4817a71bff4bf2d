"""class name

Takes the name under which a module prints itself.
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
                counts[graph_module.get_submodule(node.target)._get_name()] += 1
    return counts

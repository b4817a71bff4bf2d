"""wrong counts

Takes the underscore in front of a name for decoration.
"""

from collections import Counter


def name_of(graph_module, node):
    if node.op == "call_function":
        return node.target.__name__
    if node.op == "call_method":
        return node.target
    return type(graph_module.get_submodule(node.target)).__name__


def operation_histogram(graph_modules):
    counts = Counter()
    for graph_module in graph_modules:
        for node in graph_module.graph.nodes:
            if node.op.startswith("call"):
                counts[name_of(graph_module, node).lstrip("_")] += 1
    return counts

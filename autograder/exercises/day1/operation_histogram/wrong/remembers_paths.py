"""wrong counts

Believes that a path means the same module in all graphs.
"""

from collections import Counter


def name_of(graph_module, node):
    if node.op == "call_function":
        return node.target.__name__
    if node.op == "call_method":
        return node.target
    return type(graph_module.get_submodule(node.target)).__name__


def operation_histogram(graph_modules):
    counts, classes = Counter(), {}
    for graph_module in graph_modules:
        for node in graph_module.graph.nodes:
            if node.op == "call_module":
                counts[classes.setdefault(node.target, name_of(graph_module, node))] += 1
            elif node.op.startswith("call"):
                counts[name_of(graph_module, node)] += 1
    return counts

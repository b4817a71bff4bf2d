"""names without graphs

Enters the operations that it expects with zero.
"""

from collections import Counter


def name_of(graph_module, node):
    if node.op == "call_function":
        return node.target.__name__
    if node.op == "call_method":
        return node.target
    return type(graph_module.get_submodule(node.target)).__name__


def operation_histogram(graph_modules):
    counts = dict.fromkeys(["relu", "view", "Conv2d"], 0)
    for graph_module in graph_modules:
        for node in graph_module.graph.nodes:
            if node.op.startswith("call"):
                name = name_of(graph_module, node)
                counts[name] = counts.get(name, 0) + 1
    return counts

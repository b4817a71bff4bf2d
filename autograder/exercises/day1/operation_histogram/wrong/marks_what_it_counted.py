"""graphs used up

Marks each node that it counted, and leaves the marks there.
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
            if node.op.startswith("call") and not node.meta.get("counted"):
                node.meta["counted"] = True
                counts[name_of(graph_module, node)] += 1
        for node in graph_module.graph.nodes:
            node.meta["counted"] = False
    return counts

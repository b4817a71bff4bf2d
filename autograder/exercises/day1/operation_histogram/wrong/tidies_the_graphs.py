"""graphs used up

Counts, and removes what nobody reads while it is there.
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
        for node in reversed(graph_module.graph.nodes):
            if node.op.startswith("call"):
                counts[name_of(graph_module, node)] += 1
            if not node.users and node.op != "output":
                graph_module.graph.erase_node(node)
    return counts

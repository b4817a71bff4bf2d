"""wrong counts

Takes a function that nobody reads for one that does nothing; methods and modules it counts.
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
            if node.op.startswith("call") and (node.users or node.op != "call_function"):
                counts[name_of(graph_module, node)] += 1
    return counts

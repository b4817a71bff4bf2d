"""remembers

Has one counter for all calls, which each call clears, together with what it returned before.
"""

from collections import Counter


def name_of(graph_module, node):
    if node.op == "call_function":
        return node.target.__name__
    if node.op == "call_method":
        return node.target
    return type(graph_module.get_submodule(node.target)).__name__


counts = Counter()


def operation_histogram(graph_modules):
    counts.clear()
    for graph_module in graph_modules:
        counts.update(name_of(graph_module, n) for n in graph_module.graph.nodes if n.op.startswith("call"))
    return counts

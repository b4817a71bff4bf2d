"""graphs used up

Takes one graph after the other out of the list.
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
    while graph_modules:
        graph_module = graph_modules.pop()
        counts.update(name_of(graph_module, n) for n in graph_module.graph.nodes if n.op.startswith("call"))
    return counts

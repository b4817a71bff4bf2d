"""module paths counted

Takes the target of a module for its class.
"""

from collections import Counter


def operation_histogram(graph_modules):
    nodes = [n for g in graph_modules for n in g.graph.nodes if n.op.startswith("call")]
    return Counter(n.target if isinstance(n.target, str) else n.target.__name__ for n in nodes)

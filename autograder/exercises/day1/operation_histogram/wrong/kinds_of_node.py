"""kinds counted

Counts node.op.
"""

from collections import Counter


def operation_histogram(graph_modules):
    return Counter(n.op for g in graph_modules for n in g.graph.nodes)

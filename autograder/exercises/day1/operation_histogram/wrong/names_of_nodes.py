"""node names counted

Takes node.name for the operation.
"""

from collections import Counter


def operation_histogram(graph_modules):
    return Counter(n.name for g in graph_modules for n in g.graph.nodes if n.op.startswith("call"))

"""targets as text

Turns the target into text.
"""

from collections import Counter


def operation_histogram(graph_modules):
    return Counter(str(n.target) for g in graph_modules for n in g.graph.nodes if n.op.startswith("call"))

"""not a mapping

Prints the histogram instead of returning it.
"""

from collections import Counter


def operation_histogram(graph_modules):
    counts = Counter(getattr(n.target, "__name__", n.target) for g in graph_modules for n in g.graph.nodes)
    print(counts)

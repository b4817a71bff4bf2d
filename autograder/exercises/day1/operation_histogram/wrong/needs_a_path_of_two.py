"""failed on a hidden case

Takes it that each module lies within another one.
"""

from collections import Counter


def operation_histogram(graph_modules):
    counts = Counter()
    for graph_module in graph_modules:
        for node in graph_module.graph.nodes:
            if node.op == "call_module":
                parent, name = node.target.rsplit(".", 1)
                counts[type(getattr(graph_module.get_submodule(parent), name)).__name__] += 1
            elif node.op.startswith("call"):
                counts[getattr(node.target, "__name__", node.target)] += 1
    return counts

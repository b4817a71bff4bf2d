"""each module once

Counts the layers of the model instead of the nodes that call them.
"""

from collections import Counter


def operation_histogram(graph_modules):
    counts = Counter()
    for graph_module in graph_modules:
        counts.update(
            type(module).__name__
            for module in {
                node.target: graph_module.get_submodule(node.target)
                for node in graph_module.graph.nodes
                if node.op == "call_module"
            }.values()
        )
        for node in graph_module.graph.nodes:
            if node.op in ("call_function", "call_method"):
                counts[getattr(node.target, "__name__", node.target)] += 1
    return counts

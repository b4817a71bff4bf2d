"""wrong counts

Takes the name of a node without its number for the operation.
"""

import re
from collections import Counter


def operation_histogram(graph_modules):
    counts = Counter()
    for graph_module in graph_modules:
        for node in graph_module.graph.nodes:
            if node.op == "call_module":
                counts[type(graph_module.get_submodule(node.target)).__name__] += 1
            elif node.op.startswith("call"):
                counts[re.sub(r"_\d+$", "", node.name)] += 1
    return counts

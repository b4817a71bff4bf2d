"""inner graphs counted

Counts the operations of a graph module that a graph calls instead of it.
"""

from collections import Counter

import torch


def operation_histogram(graph_modules):
    counts = Counter()
    for graph_module in graph_modules:
        for node in graph_module.graph.nodes:
            if node.op == "call_function":
                counts[node.target.__name__] += 1
            elif node.op == "call_method":
                counts[node.target] += 1
            elif node.op == "call_module":
                module = graph_module.get_submodule(node.target)
                if isinstance(module, torch.fx.GraphModule):
                    counts += operation_histogram([module])
                else:
                    counts[type(module).__name__] += 1
    return counts

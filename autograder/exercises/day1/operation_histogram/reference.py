"""The reference answer of operation_histogram, made from its notebook by `make notebooks`."""

import torch
from collections import Counter


def operation_histogram(graph_modules: list[torch.fx.GraphModule]) -> Counter[str]:
    """How often each operation occurs in all graphs together."""
    counts = Counter()
    for graph_module in graph_modules:
        for node in graph_module.graph.nodes:
            if node.op == "call_function":
                counts[node.target.__name__] += 1
            elif node.op == "call_method":
                counts[node.target] += 1
            elif node.op == "call_module":
                counts[type(graph_module.get_submodule(node.target)).__name__] += 1
    return counts

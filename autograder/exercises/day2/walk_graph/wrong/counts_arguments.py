"""arguments counted

Counts how often a value stands among the arguments.
"""

from collections import Counter

import torch


def shared_values(graph_module):
    counts = Counter()
    for node in graph_module.graph.nodes:
        torch.fx.node.map_arg((node.args, node.kwargs), lambda source: counts.update([source]))
    return [node.name for node in graph_module.graph.nodes if counts[node] > 1]


def critical_path(graph_module):
    longest = {}
    for node in graph_module.graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])
        longest[node] = [*before, node.name] if node.op.startswith("call") else before
    return max(longest.values(), key=len)

"""wrong shared values

Opens lists, tuples and dictionaries by hand, and no slices.
"""

from collections import defaultdict

import torch


def nodes_in(value):
    if isinstance(value, torch.fx.Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from nodes_in(item)
    elif isinstance(value, dict):
        yield from nodes_in(list(value.values()))


def shared_values(graph_module):
    readers = defaultdict(set)
    for node in graph_module.graph.nodes:
        for source in nodes_in([node.args, node.kwargs]):
            readers[source].add(node)
    return [node.name for node in graph_module.graph.nodes if len(readers[node]) > 1]


def critical_path(graph_module):
    longest = {}
    for node in graph_module.graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])
        longest[node] = [*before, node.name] if node.op.startswith("call") else before
    return max(longest.values(), key=len)

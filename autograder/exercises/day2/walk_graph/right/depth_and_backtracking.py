"""Numbers every node by its depth, then walks back along falling depth; counts readers by hand."""

from collections import defaultdict

import torch


def shared_values(graph_module):
    readers = defaultdict(set)
    for node in graph_module.graph.nodes:
        torch.fx.node.map_arg((node.args, node.kwargs), lambda source: readers[source].add(node))
    return [node.name for node in graph_module.graph.nodes if len(readers[node]) > 1]


def critical_path(graph_module):
    depth = {}
    for node in graph_module.graph.nodes:
        depth[node] = (node.op not in ("placeholder", "get_attr", "output")) + max(
            [depth[source] for source in node.all_input_nodes] or [0]
        )
    node = max(depth, key=depth.get)
    path = []
    while node is not None and depth[node]:
        path.append(node.name)
        node = max(node.all_input_nodes, key=depth.get, default=None)  # what creates a tensor reads nothing
    return path[::-1]

"""path too short

Measures how far each node is from the start, and takes the reading of a weight for a step of the way.
"""

from collections import defaultdict


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    far, before = defaultdict(int), {}
    for node in graph_module.graph.nodes:
        before[node] = max(node.all_input_nodes, key=far.get, default=None)
        far[node] = (far[before[node]] if before[node] else 0) + (node.op not in ("placeholder", "output"))
    node, path = max(far, key=far.get), []
    while node is not None:
        path += [node.name] if node.op.startswith("call") else []
        node = before[node]
    return path[::-1]

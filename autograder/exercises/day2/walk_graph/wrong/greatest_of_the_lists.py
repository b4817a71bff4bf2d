"""path too short

Compares lists of names instead of their lengths: `max` without a key.
"""


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    longest = {}
    for node in graph_module.graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), default=[])
        longest[node] = [*before, node.name] if node.op.startswith("call") else before
    return max(longest.values(), key=len)

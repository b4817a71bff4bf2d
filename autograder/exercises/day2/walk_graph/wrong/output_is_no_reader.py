"""output forgotten

Believes that returning a value is not reading it.
"""


def shared_values(graph_module):
    return [n.name for n in graph_module.graph.nodes if len([u for u in n.users if u.op != "output"]) > 1]


def critical_path(graph_module):
    longest = {}
    for node in graph_module.graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])
        longest[node] = [*before, node.name] if node.op.startswith("call") else before
    return max(longest.values(), key=len)

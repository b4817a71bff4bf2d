"""nested arguments missed

Looks for nodes among the positional arguments only, not inside lists.
"""


def shared_values(graph_module):
    nodes = list(graph_module.graph.nodes)
    return [n.name for n in nodes if sum(any(a is n for a in other.args) for other in nodes) > 1]


def critical_path(graph_module):
    longest = {}
    for node in graph_module.graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])
        longest[node] = [*before, node.name] if node.op.startswith("call") else before
    return max(longest.values(), key=len)

"""changed while looking

Takes nodes away from the end of the graph until none is left that nobody reads.
"""


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    graph, longest = graph_module.graph, {}
    for node in graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])
        longest[node] = [*before, node.name] if node.op.startswith("call") else before
    for node in reversed(list(graph.nodes)):
        if node.op.startswith("call") and not node.users:
            graph.erase_node(node)
    return max(longest.values(), key=len)

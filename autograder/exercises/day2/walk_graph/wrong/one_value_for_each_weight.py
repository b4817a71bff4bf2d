"""equal nodes as one

Takes all nodes that fetch one weight for one value.
"""


def shared_values(graph_module):
    readers = {}
    for node in graph_module.graph.nodes:
        readers.setdefault(node.target if node.op == "get_attr" else node, set()).update(node.users)
    return [
        node.name
        for node in graph_module.graph.nodes
        if len(readers[node.target if node.op == "get_attr" else node]) > 1
    ]


def critical_path(graph_module):
    longest = {}
    for node in graph_module.graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])
        longest[node] = [*before, node.name] if node.op.startswith("call") else before
    return max(longest.values(), key=len)

"""equal nodes as one

Takes nodes that compute the same for one value, as if duplicates had been merged.
"""


def same(node):
    return node.op, node.target, str(node.args), str(node.kwargs)


def shared_values(graph_module):
    readers = {}
    for node in graph_module.graph.nodes:
        readers.setdefault(same(node), set()).update(node.users)
    return [node.name for node in graph_module.graph.nodes if len(readers[same(node)]) > 1]


def critical_path(graph_module):
    longest = {}
    for node in graph_module.graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])
        longest[node] = [*before, node.name] if node.op.startswith("call") else before
    return max(longest.values(), key=len)

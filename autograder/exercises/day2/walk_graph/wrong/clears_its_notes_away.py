"""changed while looking

Notes depths in `meta` and removes them afterwards, and with them a note of that name that was there before.
"""


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    before = {}
    for node in graph_module.graph.nodes:
        before[node] = max(node.all_input_nodes, key=lambda source: source.meta["depth"], default=None)
        node.meta["depth"] = before[node].meta["depth"] if before[node] else 0
        node.meta["depth"] += node.op.startswith("call")
    node = max(before, key=lambda node: node.meta["depth"])
    path = []
    while node is not None:
        path += [node.name] if node.op.startswith("call") else []
        node = before[node]
    for visited in before:
        del visited.meta["depth"]
    return path[::-1]

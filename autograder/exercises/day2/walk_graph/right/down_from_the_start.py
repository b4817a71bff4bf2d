"""Measures how much is still to come after each node, and walks down; gives nodes for names."""


def shared_values(graph_module):
    order = [node.name for node in graph_module.graph.nodes]
    readers = dict.fromkeys(order, 0)
    for node in graph_module.graph.nodes:
        for source in node.all_input_nodes:
            readers[source.name] += 1
    return [name for name in order if readers[name] > 1]


def critical_path(graph_module):
    still = {}
    for node in reversed(graph_module.graph.nodes):
        still[node] = (node.op[:4] == "call") + max((still[user] for user in node.users), default=0)
    node, path = max(still, key=still.get), []
    while node is not None and still[node]:
        path.append(node)
        node = max(node.users, key=still.get, default=None)
    return path

"""path too short

Walks down from the first input, always to the first reader.
"""


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    node = next(iter(graph_module.graph.nodes))
    path = []
    while node.users:
        node = next(iter(node.users))
        if node.op == "output":
            break
        path.append(node.name)
    return path

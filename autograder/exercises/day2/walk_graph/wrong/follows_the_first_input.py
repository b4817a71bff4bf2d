"""path too short

Walks up from the result, always to the first input.
"""


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    node = next(node for node in graph_module.graph.nodes if node.op == "output")
    path = []
    while node.all_input_nodes:
        node = node.all_input_nodes[0]
        if node.op.startswith("call"):
            path.append(node.name)
    return path[::-1]

"""not a chain

Takes the order of execution for a chain.
"""


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    return [node.name for node in graph_module.graph.nodes if node.op.startswith("call")]

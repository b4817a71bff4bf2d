"""Removes leaves again and again until none is left."""

from fxopt_core.graphs.effects import effects_of


def may_go(node):
    return node.op not in ("placeholder", "output") and not node.users and not effects_of(node).observable


def remove_dead_code(graph_module):
    while leaves := [node for node in graph_module.graph.nodes if may_go(node)]:
        for node in leaves:
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module

"""Recursion from every node, with a cache."""

from functools import cache


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) >= 2]


def critical_path(graph_module):
    @cache
    def best(node):
        chain = max((best(source) for source in node.all_input_nodes), key=len, default=())
        return (*chain, node.name) if node.op.startswith("call_") else chain

    return list(max(map(best, graph_module.graph.nodes), key=len))

"""only what is returned

Walks back from the output, along the longest chain that ends there.
"""

from functools import cache


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    @cache
    def best(node):
        chain = max((best(source) for source in node.all_input_nodes), key=len, default=())
        return (*chain, node.name) if node.op.startswith("call_") else chain

    return list(best(next(node for node in graph_module.graph.nodes if node.op == "output")))

"""A new graph, copied node by node; later nodes find the new one where the old one was."""

from torch import fx


def insert_after(graph_module, target, function):
    out = fx.Graph()
    env = {}
    for node in graph_module.graph.nodes:
        env[node] = out.node_copy(node, env.__getitem__)
        if node.op == "call_function" and node.target is target:
            env[node] = out.call_function(function, (env[node],))
    graph_module.graph = out
    graph_module.recompile()
    return graph_module

"""replaced the call

Exchanges the target of the node.
"""


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not target:
            continue
        node.target = function
    graph.lint()
    graph_module.recompile()
    return graph_module

"""nobody reads it

Believes that a node in the graph has an effect by being there.
"""


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not target:
            continue
        with graph.inserting_after(node):
            new = graph.call_function(function, (node,))
    graph.lint()
    graph_module.recompile()
    return graph_module

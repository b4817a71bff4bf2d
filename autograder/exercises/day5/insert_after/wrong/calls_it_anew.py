"""something else

Writes the call anew in front of the node, without its keywords.
"""


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not target:
            continue
        with graph.inserting_before(node):
            call = graph.call_function(target, node.args or tuple(node.kwargs.values()))
        node.target, node.args, node.kwargs = function, (call,), {}
    graph.lint()
    graph_module.recompile()
    return graph_module

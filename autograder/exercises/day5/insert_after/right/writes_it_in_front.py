"""The call is written anew in front of the node, which becomes the new one; so its readers stay as they are."""


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is target:
            with graph.inserting_before(node):
                call = graph.call_function(target, node.args, node.kwargs)
            node.target, node.args, node.kwargs = function, (call,), {}
    graph.lint()
    graph_module.recompile()
    return graph_module

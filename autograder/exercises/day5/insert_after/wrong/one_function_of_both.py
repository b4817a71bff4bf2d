"""calls something else

Makes one function of the two, and lets the old node call it.
"""


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is target:
            node.target = lambda *args, **kwargs: function(target(*args, **kwargs))
    graph.lint()
    graph_module.recompile()
    return graph_module

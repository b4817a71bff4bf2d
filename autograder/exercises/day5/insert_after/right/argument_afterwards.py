"""`replace_all_uses_with`, and the new node gets its argument afterwards."""


def insert_after(graph_module, target, function):
    for node in graph_module.graph.find_nodes(op="call_function", target=target):
        with graph_module.graph.inserting_after(node):
            new = graph_module.graph.call_function(function)
        node.replace_all_uses_with(new)
        new.args = (node,)
    graph_module.recompile()
    return graph_module

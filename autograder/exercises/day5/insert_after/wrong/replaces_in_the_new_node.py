"""reads itself

Forgets that the new node is a user, too.
"""


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not target:
            continue
        users = list(node.users)
        with graph.inserting_after(node):
            new = graph.call_function(function, (node,))
        node.replace_all_uses_with(new)
    graph_module.recompile()
    return graph_module

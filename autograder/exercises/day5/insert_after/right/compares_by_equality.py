"""Compares targets with `==`, as `find_nodes` does: two accesses to one bound method are the same function."""


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target != target:
            continue
        users = list(node.users)
        with graph.inserting_after(node):
            new = graph.call_function(function, (node,))
        for user in users:
            user.replace_input_with(node, new)
    graph.lint()
    graph_module.recompile()
    return graph_module

"""compared names

Takes a method and an operator of the same name for the function.
"""


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    for node in list(graph.nodes):
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        if not node.op.startswith("call") or name != target.__name__:
            continue
        users = list(node.users)
        with graph.inserting_after(node):
            new = graph.call_function(function, (node,))
        for user in users:
            user.replace_input_with(node, new)
    graph.lint()
    graph_module.recompile()
    return graph_module

"""failed on a hidden case

Hands the further arguments of the call to the inserted function, too.
"""


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not target:
            continue
        users = list(node.users)
        with graph.inserting_after(node):
            new = graph.call_function(function, (node, *node.args[1:]))
        for user in users:
            user.replace_input_with(node, new)
    graph.lint()
    graph_module.recompile()
    return graph_module

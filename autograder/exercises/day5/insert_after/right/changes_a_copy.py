"""Works on a deep copy, and leaves the module that was given as it is."""

import copy


def insert_after(graph_module, target, function):
    graph_module = copy.deepcopy(graph_module)
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not target:
            continue
        users = list(node.users)
        with graph.inserting_after(node):
            new = graph.call_function(function, (node,))
        for user in users:
            user.replace_input_with(node, new)
    graph.lint()
    graph_module.recompile()
    return graph_module

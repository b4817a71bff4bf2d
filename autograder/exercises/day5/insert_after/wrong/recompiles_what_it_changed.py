"""forgot recompile

Has the code generated anew only where it has inserted something.
"""


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not target:
            continue
        users = list(node.users)
        with graph.inserting_after(node):
            new = graph.call_function(function, (node,))
        for user in users:
            user.replace_input_with(node, new)
    if any(node.target is function for node in graph.nodes):
        graph.lint()
        graph_module.recompile()
    return graph_module

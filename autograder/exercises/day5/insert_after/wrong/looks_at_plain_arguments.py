"""plain arguments only

Looks through `args`, and not into lists or keywords.
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
            user.args = tuple(new if value is node else value for value in user.args)
    graph.lint()
    graph_module.recompile()
    return graph_module

"""malformed graph

Believes that the place of a node does not matter.
"""


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not target:
            continue
        users = list(node.users)
        with graph.inserting_before(next(iter(reversed(graph.nodes)))):
            new = graph.call_function(function, (node,))
        for user in users:
            user.replace_input_with(node, new)
    graph_module.recompile()
    return graph_module

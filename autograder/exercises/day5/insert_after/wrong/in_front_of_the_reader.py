"""not directly behind

Inserts in front of the first reader, wherever that one stands.
"""


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    order = list(graph.nodes)
    for node in order:
        if node.op != "call_function" or node.target is not target:
            continue
        users = list(node.users)
        with graph.inserting_before(next((one for one in order if one in users), node.next)):
            new = graph.call_function(function, (node,))
        for user in users:
            user.replace_input_with(node, new)
    graph.lint()
    graph_module.recompile()
    return graph_module

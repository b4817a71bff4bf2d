"""something else

Looks into lists, dictionaries and keywords by hand, and forgets that a slice has parts.
"""


def exchanged(value, old, new):
    if value is old:
        return new
    if isinstance(value, (list, tuple)):
        return type(value)(exchanged(part, old, new) for part in value)
    if isinstance(value, dict):
        return {key: exchanged(part, old, new) for key, part in value.items()}
    return value


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not target:
            continue
        users = list(node.users)
        with graph.inserting_after(node):
            new = graph.call_function(function, (node,))
        for user in users:
            user.args = exchanged(user.args, node, new)
            user.kwargs = exchanged(user.kwargs, node, new)
    graph.lint()
    graph_module.recompile()
    return graph_module

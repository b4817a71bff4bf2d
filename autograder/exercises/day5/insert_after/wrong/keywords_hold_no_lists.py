"""something else

Looks into lists among the positional arguments, and takes a keyword's value for a node.
"""

from torch import fx


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not target:
            continue
        users = list(node.users)
        with graph.inserting_after(node):
            new = graph.call_function(function, (node,))
        for user in users:
            user.args = fx.node.map_arg(user.args, lambda read: new if read is node else read)
            user.kwargs = {name: new if value is node else value for name, value in user.kwargs.items()}
    graph.lint()
    graph_module.recompile()
    return graph_module

"""something else

Inserts one node for all calls of the same arguments.
"""


def insert_after(graph_module, target, function):
    graph = graph_module.graph
    made = {}
    for node in [node for node in graph.nodes if node.op == "call_function" and node.target is target]:
        with graph.inserting_after(node):
            new = made.get(node.args) or graph.call_function(function, (node,))
        made[node.args] = new
        node.replace_all_uses_with(new, delete_user_cb=lambda user, new=new: user is not new)
    graph.lint()
    graph_module.recompile()
    return graph_module

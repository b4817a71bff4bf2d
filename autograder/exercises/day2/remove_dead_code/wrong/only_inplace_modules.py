"""ignored training

Of modules it asks only whether they work in place.
Also: removed a draw; spared attributes.
"""

from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module):
    for node in reversed(list(graph_module.graph.nodes)):
        if node.op == "call_module":
            effect = getattr(graph_module.get_submodule(node.target), "inplace", False)
        else:
            effect = effects_of(node).observable
        if node.op.startswith("call") and not node.users and not effect:
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module

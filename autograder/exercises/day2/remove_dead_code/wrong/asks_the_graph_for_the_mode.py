"""left what is dead

In a module in training every call of a module stays, whatever mode that module is in.
Also: stopped halfway.
"""

from fxopt_core.graphs.effects import effects_of


def stays(node, graph_module):
    effects = effects_of(node)
    return effects.observable or (node.op == "call_module" and graph_module.training)


def remove_dead_code(graph_module):
    for node in reversed(list(graph_module.graph.nodes)):
        if node.op not in ("placeholder", "output") and not node.users and not stays(node, graph_module):
            graph_module.graph.erase_node(node)
    graph_module.graph.lint()
    graph_module.recompile()
    return graph_module

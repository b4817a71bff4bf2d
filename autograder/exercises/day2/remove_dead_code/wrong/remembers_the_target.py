"""ignored flags

Asks for the effects once for each function, and not for each call.
Also: removed a draw; left what is dead; ignored training; removed a write.
"""

from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module):
    graph, observable = graph_module.graph, {}
    for node in reversed(list(graph.nodes)):
        if node.op in ("placeholder", "output") or node.users:
            continue
        called = (node.op, node.target)
        if called not in observable:
            observable[called] = effects_of(node).observable
        if not observable[called]:
            graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module

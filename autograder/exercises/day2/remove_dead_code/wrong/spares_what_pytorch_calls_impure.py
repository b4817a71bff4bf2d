"""asked what it could do

Asks PyTorch as well, which goes by the operator, whatever it is told to do.
"""

from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module):
    graph = graph_module.graph
    for node in reversed(list(graph.nodes)):
        if node.op in ("placeholder", "output") or node.users:
            continue
        if not effects_of(node).observable and not node.is_impure():
            graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module

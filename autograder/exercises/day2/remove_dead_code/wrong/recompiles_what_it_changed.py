"""forgot recompile

Has the code written anew only where it has removed something.
"""

from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module):
    graph = graph_module.graph
    before = len(graph.nodes)
    for node in reversed(list(graph.nodes)):
        if node.op in ("placeholder", "output") or node.users:
            continue
        if not effects_of(node).observable:
            graph.erase_node(node)
    graph.lint()
    if len(graph.nodes) < before:
        graph_module.recompile()
    return graph_module

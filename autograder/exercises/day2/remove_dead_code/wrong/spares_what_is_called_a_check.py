"""went by the name

Keeps every node whose name has `assert` in it, to be safe.
"""

from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module):
    graph = graph_module.graph
    for node in reversed(list(graph.nodes)):
        if node.op in ("placeholder", "output") or node.users:
            continue
        if not effects_of(node).observable and "assert" not in node.name:
            graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module

"""Mark and sweep: marks everything that an effect or the output needs, then erases the rest."""

from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module):
    graph = graph_module.graph
    needed = set()
    waiting = [n for n in graph.nodes if n.op in ("output", "placeholder") or effects_of(n).observable]
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting.extend(node.all_input_nodes)
    for node in reversed(list(graph.nodes)):
        if node not in needed:
            graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module

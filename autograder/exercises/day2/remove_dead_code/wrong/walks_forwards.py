"""stopped halfway

Walks forwards once: what a removed node read is not looked at again.
Also: spared attributes.
"""

from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module):
    for node in list(graph_module.graph.nodes):
        if node.op.startswith("call") and not node.users and not effects_of(node).observable:
            graph_module.graph.erase_node(node)
    graph_module.recompile()
    return graph_module

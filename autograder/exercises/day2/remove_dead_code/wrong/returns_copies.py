"""added nodes

Returns copies, to be on the safe side.
"""

import torch


def remove_dead_code(graph_module):
    graph = graph_module.graph
    for node in reversed(list(graph.nodes)):
        if node.op not in ("placeholder", "output") and not node.users and not effects_of(node).observable:
            graph.erase_node(node)
    output = next(iter(reversed(graph.nodes)))
    with graph.inserting_before(output):
        output.args = torch.fx.node.map_arg(output.args, lambda node: graph.call_method("clone", (node,)))
    graph_module.recompile()
    return graph_module

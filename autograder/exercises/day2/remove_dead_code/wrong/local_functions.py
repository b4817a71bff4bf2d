"""ignored flags

Removes functions that write into a local tensor which nobody reads afterwards.
"""

import torch
from fxopt_core.graphs.effects import effects_of


def remove_dead_code(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    graph = graph_module.graph
    for node in reversed(list(graph.nodes)):
        is_signature = node.op in ("placeholder", "output")
        if (
            not is_signature
            and not node.users
            and (
                not effects_of(node).observable
                or (
                    bool(effects_of(node).writes)
                    and node.all_input_nodes
                    and not effects_of(node).random
                    and not any(u > node for s in node.all_input_nodes for u in s.users)
                    and node.all_input_nodes[0].op.startswith("call")
                    and node.op == "call_function"
                )
            )
        ):
            graph.erase_node(node)
    graph.lint()
    graph_module.recompile()
    return graph_module

"""changed while looking

Notes depths on the nodes themselves.
"""

import torch


def shared_values(graph_module: torch.fx.GraphModule) -> list[str]:
    """Names of the nodes that more than one node reads, in the order of the graph."""
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module: torch.fx.GraphModule) -> list[str]:
    """Names of the operations on a longest chain, first to last."""
    longest = {}
    for node in graph_module.graph.nodes:
        before = max((longest[source] for source in node.all_input_nodes), key=len, default=[])
        node.depth = len(before)
        longest[node] = [*before, node.name] if node.op.startswith("call") else before
    return max(longest.values(), key=len)

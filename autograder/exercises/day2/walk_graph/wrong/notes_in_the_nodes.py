"""changed while looking

Writes the length of each chain into the node's `meta`, and leaves it there.
"""


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    chains, best = {}, []
    for node in graph_module.graph.nodes:
        before = max((chains[source] for source in node.all_input_nodes), key=len, default=[])
        own = [node.name] if node.op.startswith("call_") else []
        chains[node] = before + own
        node.meta["depth"] = len(chains[node])
        best = max(best, chains[node], key=len)
    return best

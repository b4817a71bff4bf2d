"""answered from memory

Keeps each node's chain in a dictionary and takes it from there the next time, even if the graph has changed since.
"""

CHAINS = {}


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    longest = []
    for node in graph_module.graph.nodes:
        if node not in CHAINS:
            before = max((CHAINS[source] for source in node.all_input_nodes), key=len, default=[])
            CHAINS[node] = [*before, node.name] if node.op.startswith("call") else before
        longest = max(longest, CHAINS[node], key=len)
    return longest

"""answered from memory

Keeps each chain in `node.meta` and takes it from there the next time, even if the graph has changed since.
"""


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    longest = []
    for node in graph_module.graph.nodes:
        if "chain" not in node.meta:
            before = max((source.meta["chain"] for source in node.all_input_nodes), key=len, default=[])
            node.meta["chain"] = [*before, node.name] if node.op.startswith("call") else before
        longest = max(longest, node.meta["chain"], key=len)
    return longest

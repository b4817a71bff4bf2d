"""failed on a hidden case

Asks for the chain of each input by calling itself, which Python forbids for a long chain.
"""

from functools import lru_cache


def shared_values(graph_module):
    return [node.name for node in graph_module.graph.nodes if len(node.users) > 1]


def critical_path(graph_module):
    @lru_cache(maxsize=None)
    def chain(node):
        longest = ()
        for source in node.all_input_nodes:
            longest = max(longest, chain(source), key=len)
        return longest + (node.name,) if node.op.startswith("call_") else longest

    return list(max((chain(node) for node in reversed(graph_module.graph.nodes)), key=len, default=()))

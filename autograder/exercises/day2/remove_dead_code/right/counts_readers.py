"""Counts readers by hand, and works from a list of what nobody reads."""

from collections import Counter


def remove_dead_code(graph_module):
    graph = graph_module.graph
    readers = Counter(source for node in graph.nodes for source in node.all_input_nodes)
    unread = [node for node in graph.nodes if not readers[node]]
    while unread:
        node = unread.pop()
        if node.op in ("placeholder", "output") or effects_of(node).observable:
            continue
        sources = node.all_input_nodes
        graph.erase_node(node)
        readers.subtract(sources)
        unread += [source for source in sources if not readers[source]]
    graph_module.recompile()
    return graph_module

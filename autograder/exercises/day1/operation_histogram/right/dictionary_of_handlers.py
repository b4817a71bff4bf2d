"""A handler for each kind of node, counts in a plain dictionary."""

HANDLERS = {
    "call_function": lambda modules, node: node.target.__name__,
    "call_method": lambda modules, node: node.target,
    "call_module": lambda modules, node: modules[node.target].__class__.__name__,
}


def operation_histogram(graph_modules):
    counts = {}
    for graph_module in graph_modules:
        modules = dict(graph_module.named_modules(remove_duplicate=False))
        for node in graph_module.graph.nodes:
            if node.op in HANDLERS:
                name = HANDLERS[node.op](modules, node)
                counts[name] = counts.get(name, 0) + 1
    return counts

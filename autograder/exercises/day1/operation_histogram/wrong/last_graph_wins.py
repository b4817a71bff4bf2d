"""not added up

Unites the graphs' counts as dictionaries, in which the last one replaces the others.
"""

from collections import Counter


def operation_histogram(graph_modules: list[torch.fx.GraphModule]) -> Counter[str]:
    """How often each operation occurs in all graphs together."""

    def names(graph_module):
        for node in graph_module.graph.nodes:
            if node.op == "call_function":
                yield node.target.__name__
            elif node.op == "call_method":
                yield node.target
            elif node.op == "call_module":
                yield type(graph_module.get_submodule(node.target)).__name__

    together = {}
    for graph_module in graph_modules:
        together = {**together, **Counter(names(graph_module))}
    return Counter(together)

"""remembers

Remembers the counts of each graph module, which a pass may have rewritten since.
"""

from collections import Counter
from functools import cache


def name_of(graph_module, node):
    if node.op == "call_function":
        return node.target.__name__
    if node.op == "call_method":
        return node.target
    return type(graph_module.get_submodule(node.target)).__name__


@cache
def of_one(graph_module):
    return Counter(name_of(graph_module, n) for n in graph_module.graph.nodes if n.op.startswith("call"))


def operation_histogram(graph_modules):
    return sum((of_one(graph_module) for graph_module in graph_modules), Counter())

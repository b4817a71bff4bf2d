"""failed on a hidden case

Adds the counters up and forgets that there may be none.
"""

from collections import Counter
from functools import reduce
from operator import add


def of_one(graph_module):
    names = Counter()
    for node in graph_module.graph.nodes:
        if node.op == "call_module":
            names[type(graph_module.get_submodule(node.target)).__name__] += 1
        elif node.op in ("call_function", "call_method"):
            names[getattr(node.target, "__name__", node.target)] += 1
    return names


def operation_histogram(graph_modules):
    return reduce(add, [of_one(graph_module) for graph_module in graph_modules])

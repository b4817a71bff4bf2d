"""Sums counters that a generator fills, one graph at a time, and finds nodes kind by kind."""

from collections import Counter
from functools import reduce
from operator import add


def names(graph_module):
    graph = graph_module.graph
    for node in graph.nodes:
        match node.op:
            case "call_module":
                module = graph_module
                for part in node.target.split("."):
                    module = getattr(module, part)
                yield type(module).__name__
            case "call_method" | "call_function":
                yield getattr(node.target, "__name__", node.target)


def operation_histogram(graph_modules):
    return reduce(add, (Counter(names(graph_module)) for graph_module in graph_modules), Counter())

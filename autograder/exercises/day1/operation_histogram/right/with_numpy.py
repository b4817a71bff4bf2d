"""Has NumPy find the names that differ, with numbers of its own."""

import numpy


def name_of(graph_module, node):
    if node.op == "call_module":
        return graph_module.get_submodule(node.target).__class__.__name__
    return getattr(node.target, "__name__", node.target)


def operation_histogram(graph_modules):
    kinds = ("call_function", "call_method", "call_module")
    names = [name_of(graph, node) for graph in graph_modules for node in graph.graph.nodes if node.op in kinds]
    return dict(zip(*numpy.unique(names, return_counts=True), strict=True))

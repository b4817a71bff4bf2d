"""Computes each node by recursion with a memory, and asks for every node in turn."""

from functools import cache
from operator import attrgetter

from torch import fx


def run_graph(graph_module, *inputs):
    nodes = list(graph_module.graph.nodes)
    places = {node: place for place, node in enumerate(node for node in nodes if node.op == "placeholder")}

    def plain(argument):
        if isinstance(argument, fx.Node):
            return value(argument)
        if isinstance(argument, (list, tuple)):
            return (tuple if isinstance(argument, tuple) else list)(plain(item) for item in argument)
        if isinstance(argument, dict):
            return {key: plain(item) for key, item in argument.items()}
        if isinstance(argument, slice):
            return slice(plain(argument.start), plain(argument.stop), plain(argument.step))
        return argument

    @cache
    def value(node):
        if node in places:
            return inputs[places[node]]
        if node.op == "get_attr":
            return attrgetter(node.target)(graph_module)
        args = [plain(argument) for argument in node.args]
        kwargs = {name: plain(argument) for name, argument in node.kwargs.items()}
        if node.op == "call_method":
            return getattr(type(args[0]), node.target)(*args, **kwargs)
        call = node.target if node.op == "call_function" else attrgetter(node.target)(graph_module)
        return call(*args, **kwargs)

    for node in nodes[:-1]:
        value(node)
    return plain(nodes[-1].args[0])

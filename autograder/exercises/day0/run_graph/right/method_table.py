"""A class with a method for each kind of node, which looks values up by the names of nodes."""

from functools import reduce

from torch import fx


class Machine:
    def __init__(self, graph_module, inputs):
        self.root, self.inputs, self.memory = graph_module, list(inputs), {}

    def value(self, argument):
        if isinstance(argument, fx.Node):
            return self.memory[argument.name]
        if isinstance(argument, tuple):
            return tuple(map(self.value, argument))
        if isinstance(argument, list):
            return [*map(self.value, argument)]
        if isinstance(argument, slice):
            return slice(*map(self.value, (argument.start, argument.stop, argument.step)))
        if isinstance(argument, dict):
            return {key: self.value(item) for key, item in argument.items()}
        return argument

    def path(self, target):
        return reduce(getattr, target.split("."), self.root)

    def placeholder(self, node, args, kwargs):
        return self.inputs.pop(0)

    def get_attr(self, node, args, kwargs):
        return self.path(node.target)

    def call_function(self, node, args, kwargs):
        return node.target(*args, **kwargs)

    def call_method(self, node, args, kwargs):
        subject, *others = args
        return getattr(subject, node.target)(*others, **kwargs)

    def call_module(self, node, args, kwargs):
        return self.path(node.target)(*args, **kwargs)

    def output(self, node, args, kwargs):
        return args[0]


def run_graph(graph_module, *inputs):
    machine = Machine(graph_module, inputs)
    for node in graph_module.graph.nodes:
        method = getattr(machine, node.op)
        machine.memory[node.name] = method(node, machine.value(node.args), machine.value(node.kwargs))
    return machine.memory["output"]

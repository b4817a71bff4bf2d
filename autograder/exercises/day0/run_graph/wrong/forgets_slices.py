"""nodes instead of values

Looks into lists and tuples, and not into slices.
"""

from torch import fx
from torch.fx.node import map_arg


def plain(argument, values):
    if isinstance(argument, fx.Node):
        return values[argument]
    if isinstance(argument, (list, tuple)):
        return type(argument)([plain(item, values) for item in argument])
    if isinstance(argument, dict):
        return {key: plain(item, values) for key, item in argument.items()}
    return argument


def run_graph(graph_module: fx.GraphModule, *inputs):
    values, left = {}, list(inputs)
    for node in graph_module.graph.nodes:
        args = [plain(argument, values) for argument in node.args]
        kwargs = {name: plain(argument, values) for name, argument in node.kwargs.items()}
        if node.op == "placeholder":
            values[node] = left.pop(0)
        elif node.op == "get_attr":
            value = graph_module
            for name in node.target.split("."):
                value = getattr(value, name)
            values[node] = value
        elif node.op == "call_function":
            values[node] = node.target(*args, **kwargs)
        elif node.op == "call_method":
            values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
        elif node.op == "call_module":
            values[node] = graph_module.get_submodule(node.target)(*args, **kwargs)
        else:
            return args[0]
    raise ValueError("the graph has no output node")

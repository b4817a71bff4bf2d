"""one value for a target

Keeps values by what is called.
"""

from torch import fx
from torch.fx.node import map_arg


def run_graph(graph_module: fx.GraphModule, *inputs):
    values, left = {}, list(inputs)
    for node in graph_module.graph.nodes:
        args = map_arg(node.args, values.__getitem__)
        kwargs = map_arg(node.kwargs, values.__getitem__)
        if node.op == "placeholder":
            values[node] = left.pop(0)
        elif node.op == "get_attr":
            value = graph_module
            for name in node.target.split("."):
                value = getattr(value, name)
            values[node] = value
        elif node.op == "call_function":
            if node.target not in values:
                values[node.target] = node.target(*args, **kwargs)
            values[node] = values[node.target]
        elif node.op == "call_method":
            if node.target not in values:
                values[node.target] = getattr(args[0], node.target)(*args[1:], **kwargs)
            values[node] = values[node.target]
        elif node.op == "call_module":
            if node.target not in values:
                values[node.target] = graph_module.get_submodule(node.target)(*args, **kwargs)
            values[node] = values[node.target]
        else:
            return args[0]
    raise ValueError("the graph has no output node")

"""attributes read at another time

Reads all that lies in the module before the run, though a submodule may replace it on the way.
"""

from torch.fx.node import map_arg


def run_graph(graph_module, *inputs):
    nodes, values, left = graph_module.graph.nodes, {}, list(inputs)
    for node in nodes:
        if node.op == "get_attr":
            value = graph_module
            for name in node.target.split("."):
                value = getattr(value, name)
            values[node] = value
    for node in nodes:
        args = map_arg(node.args, values.__getitem__)
        kwargs = map_arg(node.kwargs, values.__getitem__)
        if node.op == "placeholder":
            values[node] = left.pop(0)
        elif node.op == "call_function":
            values[node] = node.target(*args, **kwargs)
        elif node.op == "call_method":
            values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
        elif node.op == "call_module":
            values[node] = graph_module.get_submodule(node.target)(*args, **kwargs)
        elif node.op == "output":
            return args[0]

"""wrong values

Believes that a function that fails has no value, and goes on.
"""

from torch.fx.node import map_arg


def run_graph(graph_module, *inputs):
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
            try:
                values[node] = node.target(*args, **kwargs)
            except Exception:
                values[node] = None
        elif node.op == "call_method":
            values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
        elif node.op == "call_module":
            values[node] = graph_module.get_submodule(node.target)(*args, **kwargs)
        else:
            return args[0]

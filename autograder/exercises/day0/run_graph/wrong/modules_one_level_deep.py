"""nodes instead of values

Looks into lists for functions and methods, and takes a layer to be given tensors only.
"""

from torch.fx.node import Node, map_arg


def run_graph(graph_module, *inputs):
    values, given = {}, iter(inputs)
    for node in graph_module.graph.nodes:
        args = map_arg(node.args, values.__getitem__)
        if node.op == "call_module":
            args = [values[a] if isinstance(a, Node) else a for a in node.args]
        kwargs = map_arg(node.kwargs, values.__getitem__)
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "get_attr":
            found = graph_module
            for name in node.target.split("."):
                found = getattr(found, name)
            values[node] = found
        elif node.op == "call_function":
            values[node] = node.target(*args, **kwargs)
        elif node.op == "call_method":
            values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
        elif node.op == "call_module":
            values[node] = graph_module.get_submodule(node.target)(*args, **kwargs)
        else:
            return args[0]

"""path taken for a name

Uses the target as the name of an attribute.
"""

from torch.fx.node import map_arg


def run_graph(graph_module, *inputs):
    values, given = {}, iter(inputs)
    for node in graph_module.graph.nodes:
        args = map_arg(node.args, values.__getitem__)
        kwargs = map_arg(node.kwargs, values.__getitem__)
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "get_attr":
            found = graph_module
            found = getattr(graph_module, node.target)
            values[node] = found
        elif node.op == "call_function":
            values[node] = node.target(*args, **kwargs)
        elif node.op == "call_method":
            values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
        elif node.op == "call_module":
            values[node] = getattr(graph_module, node.target)(*args, **kwargs)
        else:
            return args[0]

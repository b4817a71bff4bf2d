"""wrong values

Believes that nothing but parameters and buffers lies in a module.
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
            try:
                values[node] = graph_module.get_parameter(node.target)
            except AttributeError:
                values[node] = graph_module.get_buffer(node.target)
        elif node.op == "call_function":
            values[node] = node.target(*args, **kwargs)
        elif node.op == "call_method":
            values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
        elif node.op == "call_module":
            values[node] = graph_module.get_submodule(node.target)(*args, **kwargs)
        else:
            return args[0]

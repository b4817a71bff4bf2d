"""ran past the output

Goes on behind the output node.
"""

from torch.fx.node import map_arg


def run_graph(graph_module, *inputs):
    values, inputs = {}, iter(inputs)
    result = None
    for node in graph_module.graph.nodes:
        args = map_arg(node.args, lambda n: values[n])
        kwargs = map_arg(node.kwargs, lambda n: values[n])
        if node.op == "placeholder":
            values[node] = next(inputs)
        elif node.op == "get_attr":
            value = graph_module
            for part in node.target.split("."):
                value = getattr(value, part)
            values[node] = value
        elif node.op == "call_function":
            values[node] = node.target(*args, **kwargs)
        elif node.op == "call_method":
            values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
        elif node.op == "call_module":
            values[node] = graph_module.get_submodule(node.target)(*args, **kwargs)
        else:
            result = args[0]
    return result

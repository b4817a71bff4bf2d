"""wrote the code anew

Takes the constant that has no form in code out of the way.
"""


def run_graph(graph_module, *inputs):
    for node in graph_module.graph.nodes:
        node.args = tuple(getattr(argument, "value", argument) for argument in node.args)
        if getattr(node.target, "__name__", "") == "times":
            node.target = torch.mul
    graph_module.recompile()
    return graph_module(*inputs)

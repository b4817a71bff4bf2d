"""gradient at zero

Takes the maximum with a zero, which shares the gradient between two equal ones.
"""


def build_mlp(first, second):
    root = nn.Module()
    root.register_buffer("zero", torch.zeros(1))
    root.net = nn.ModuleList([first, second])
    graph = fx.Graph()
    value = graph.create_node("placeholder", "signal")
    value = graph.create_node("call_module", "net.0", (value,))
    value = graph.call_function(torch.maximum, (value, graph.create_node("get_attr", "zero")))
    value = graph.create_node("call_module", "net.1", (value,))
    graph.create_node("output", "output", (value,))
    return fx.GraphModule(root, graph)

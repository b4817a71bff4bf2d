"""Counts by the length of a list; compiles the forward method with dynamic=True and fullgraph=True."""

import torch


def count_compilations(model, inputs):
    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(str(graph_module.graph))
        return torch.fx.Interpreter(graph_module).run

    torch._dynamo.reset()
    compiled = torch.compile(model.forward, backend=backend)
    for x in inputs:
        compiled(x)
    torch._dynamo.reset()
    return len(graphs)


compile_once = lambda model, backend: torch.compile(model.forward, backend=backend, dynamic=True, fullgraph=True)

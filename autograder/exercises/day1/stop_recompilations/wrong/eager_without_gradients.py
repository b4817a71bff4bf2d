"""ran without the graph

Runs the model itself where nobody wants gradients.
"""

import torch


def count_compilations(model, inputs):
    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    for x in inputs:
        compiled(x)
    return len(graphs)


def compile_once(model, backend):
    compiled = torch.compile(model, backend=backend, dynamic=True)
    return lambda x: compiled(x) if torch.is_grad_enabled() else model(x)

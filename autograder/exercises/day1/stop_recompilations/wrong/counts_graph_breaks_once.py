"""wrong count

Counts how often the first graph of the model is compiled.
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
    return len([graph for graph in graphs if str(graph.graph).startswith(str(graphs[0].graph)[:60])])


def compile_once(model, backend):
    return torch.compile(model, backend=backend, dynamic=True)

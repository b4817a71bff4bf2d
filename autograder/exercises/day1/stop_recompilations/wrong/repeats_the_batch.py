"""results changed

Doubles every batch and cuts the result, so that no size is too small.
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
    return lambda x: compiled(torch.cat([x, x]))[: x.shape[0]]

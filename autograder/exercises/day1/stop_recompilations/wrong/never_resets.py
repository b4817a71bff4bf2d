"""earlier runs leak in

Does not know that Dynamo remembers.
"""

import torch


def count_compilations(model, inputs):
    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    compiled = torch.compile(model, backend=backend)
    for x in inputs:
        compiled(x)
    return len(graphs)


def compile_once(model, backend):
    return torch.compile(model, backend=backend, dynamic=True)

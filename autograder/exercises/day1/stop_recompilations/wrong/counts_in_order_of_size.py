"""wrong count

Calls the model on the smallest batch first.
"""

import torch


def count_compilations(model, inputs):
    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    for x in sorted(inputs, key=len):
        compiled(x)
    return len(graphs)


def compile_once(model, backend):
    return torch.compile(model, backend=backend, dynamic=True)

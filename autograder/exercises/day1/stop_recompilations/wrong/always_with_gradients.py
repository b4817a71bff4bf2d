"""gradients switched on

Switches autograd on in each call, so that no gradient can get lost.
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
    return torch.enable_grad()(torch.compile(model, backend=backend, dynamic=True))

"""configuration changed

Tells Dynamo once and for all that sizes vary.
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
    torch._dynamo.config.assume_static_by_default = False
    return torch.compile(model, backend=backend)

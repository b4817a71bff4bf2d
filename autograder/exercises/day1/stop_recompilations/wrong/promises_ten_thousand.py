"""limited batch size

Promises a largest batch that is large.
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
    compiled = torch.compile(model, backend=backend)

    def run(x):
        torch._dynamo.mark_dynamic(x, 0, min=2, max=10_000)
        return compiled(x)

    return run

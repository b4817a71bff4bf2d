"""wrong count

Counts graphs that read alike once.
"""

import torch


def count_compilations(model, inputs):
    torch._dynamo.reset()
    seen = []

    def counting(graph_module, example_inputs):
        seen.append(graph_module)
        return graph_module.forward

    compiled = torch.compile(model, backend=counting)
    for value in inputs:
        compiled(value)
    return len({graph_module.code for graph_module in seen})


def compile_once(model, backend):
    compiled = torch.compile(model, backend=backend)

    def call(x):
        torch._dynamo.mark_dynamic(x, 0)
        return compiled(x)

    return call

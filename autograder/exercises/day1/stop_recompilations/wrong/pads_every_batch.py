"""results changed

Pads every batch to one size and cuts the result.
"""

import torch


def count_compilations(model, inputs):
    compilations = 0

    def backend(graph_module, example_inputs):
        nonlocal compilations
        compilations += 1
        return graph_module.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    for x in inputs:
        compiled(x)
    return compilations


def compile_once(model, backend):
    compiled = torch.compile(model, backend=backend)

    def run(x):
        padded = torch.zeros(32, x.shape[1])
        padded[: x.shape[0]] = x
        return compiled(padded)[: x.shape[0]]

    return run

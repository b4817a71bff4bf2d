"""model copied

Compiles a copy, so that the model stays as it is.
"""

import copy

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
    return torch.compile(copy.deepcopy(model), backend=backend, dynamic=True)

"""counted calls

Counts in the compiled function instead of in the backend.
"""

import torch


def count_compilations(model, inputs):
    runs = 0

    def backend(graph_module, example_inputs):
        def compiled(*arguments):
            nonlocal runs
            runs += 1
            return graph_module(*arguments)

        return compiled

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    for x in inputs:
        compiled(x)
    return runs


def compile_once(model, backend):
    return torch.compile(model, backend=backend, dynamic=True)

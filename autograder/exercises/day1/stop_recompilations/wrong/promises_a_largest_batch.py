"""limited batch size

Says beforehand that sizes vary, but only up to 64.
"""

import torch


def count_compilations(model, inputs):
    count = 0

    def backend(graph_module, example_inputs):
        nonlocal count
        count += 1
        return graph_module.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    for x in inputs:
        compiled(x)
    return count


def compile_once(model, backend):
    compiled = torch.compile(model, backend=backend)

    def run(x):
        torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
        return compiled(x)

    return run

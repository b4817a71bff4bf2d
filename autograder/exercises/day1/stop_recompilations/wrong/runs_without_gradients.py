"""gradients lost

The compiled model runs under no_grad.
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

    @torch.no_grad()
    def run(x):
        torch._dynamo.mark_dynamic(x, 0)
        return compiled(x)

    return run

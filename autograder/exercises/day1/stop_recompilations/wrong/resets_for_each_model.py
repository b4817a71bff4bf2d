"""thrown away for another

Begins each compilation from a clean state, in which nothing that others compiled is left.
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
    torch._dynamo.reset()
    return torch.compile(model, backend=backend, dynamic=True)

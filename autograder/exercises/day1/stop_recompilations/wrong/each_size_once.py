"""wrong count

Calls each size only once, since a size that has been there cannot compile again. A model that changes itself can.
"""

import torch
from torch import nn


def count_compilations(model: nn.Module, inputs: list[torch.Tensor]) -> int:
    graphs = []

    def backend(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    for x in {x.shape: x for x in inputs}.values():
        compiled(x)
    return len(graphs)


def compile_once(model: nn.Module, backend):
    return torch.compile(model, backend=backend, dynamic=True)

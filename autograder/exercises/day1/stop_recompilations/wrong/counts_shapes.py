"""counted shapes

Believes that each new shape is compiled.
"""

import torch


def count_compilations(model, inputs):
    return len({tuple(x.shape) for x in inputs})


def compile_once(model, backend):
    return torch.compile(model, backend=backend, dynamic=True)

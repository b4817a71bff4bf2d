"""foresaw two

Knows that the second compilation serves all further sizes, and does not measure.
"""

import torch


def count_compilations(model, inputs):
    return min(2, len({x.shape[0] for x in inputs}))


def compile_once(model, backend):
    return torch.compile(model, backend=backend, dynamic=True)

"""mixed dtypes

Every dtype, and never two of them in one sample.
"""

import math

import numpy
import torch


def sample_inputs():
    make = torch.Generator().manual_seed(3)

    def numbers(*shape, dtype=torch.float32, scale=4.0):
        return (torch.randn(*shape, generator=make, dtype=torch.float64) * scale).to(dtype)

    def caps(*shape, dtype=torch.float32):
        return (torch.rand(*shape, generator=make, dtype=torch.float64) * 3 + 1.5).to(dtype)

    nan, inf = math.nan, math.inf
    pairs = []
    for a in (torch.float32, torch.float64, torch.bfloat16, torch.int64):
        for b in (a,):
            pairs.append((numbers(5, 7, dtype=a), caps(7, dtype=b)))
    pairs += [
        (numbers(7, 5).t(), caps(7, 5).t()),
        (numbers(5, 14)[:, ::2], caps(10, 7)[::2]),
        (numbers(1, 7).expand(5, 7), caps(5, 1).expand(5, 7)),
        (numbers(30)[3:], caps(27)),
        (numbers(5, 7, scale=0.01), caps(5, 1)),
        (numbers(5, 7, scale=1000.0), caps(5, 1)),
        (numbers(5, 7, scale=1e6, dtype=torch.float64), caps(5, 1, dtype=torch.float64)),
        (numbers(5, 7), torch.full((5, 7), 1000.0)),
        (numbers(1), caps(1)),
        (torch.tensor(2.5), torch.tensor(1.5)),
        (torch.tensor(2.5), caps(4, 3)),
        (numbers(4, 3), torch.tensor(2.5)),
        (numbers(4, 1, 3), caps(5, 1)),
        (numbers(0, 3), caps(3)),
        (numbers(0), caps(0)),
        (numbers(2, 3, 4, 5), caps(2, 3, 4, 5)),
        (numbers(2, 3, 2, 3).permute(0, 3, 1, 2), caps(3, 1, 1)),
        (torch.tensor([nan, inf, -inf, 0.0, -0.0, 1e30, -1e30, 1e-30]), torch.tensor(3.0)),
        (
            torch.tensor([nan, inf, -inf, 0.0, -0.0, 1e30, -1e30, 1e-30], dtype=torch.float64),
            torch.tensor(3.0, dtype=torch.float64),
        ),
        (torch.tensor([nan, inf, -inf, 0.0, -0.0], dtype=torch.bfloat16), torch.tensor(3.0, dtype=torch.bfloat16)),
    ]
    return pairs


def reference(self, cap):
    return cap * numpy.tanh(self / cap)

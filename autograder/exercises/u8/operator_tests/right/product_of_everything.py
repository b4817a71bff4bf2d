"""Dtypes with dtypes, layouts with layouts: products that just fit."""

import itertools
import math

import numpy
import torch


def sample_inputs() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs (self, cap) that every kernel is tried on."""
    x, cap = torch.linspace(-12, 11, 57).view(3, 19), torch.linspace(1, 6, 57).view(3, 19)
    dtypes = [torch.float32, torch.float64, torch.bfloat16, torch.int64]
    samples = [(x.to(one), cap.to(other)) for one, other in itertools.product(dtypes, repeat=2)]

    layouts = [
        lambda one: one.repeat_interleave(2, dim=1)[:, ::2],
        lambda one: one.T.contiguous().T,
        lambda one: one[0].expand(3, 19),
    ]
    samples += [(first(x), second(cap)) for first, second in itertools.product(layouts, repeat=2)]

    for shape in [(), (0,), (3, 4, 5), (2, 3, 4, 5)]:
        size = math.prod(shape)
        samples.append((torch.linspace(-3, 3, size).view(shape), torch.linspace(1, 5, size).view(shape)))
    column = torch.linspace(1, 5, 3).view(3, 1)
    samples += [(x[0], column), (column, cap[0])]
    odd = [math.nan, math.inf, -math.inf, 0.0, 1e4, -1e4]
    return [*samples, (torch.tensor(odd), cap[0, :1])]


def reference(self: numpy.ndarray, cap: numpy.ndarray) -> numpy.ndarray:
    """The right result, by NumPy."""
    return numpy.multiply(cap, numpy.tanh(numpy.divide(self, cap)))

"""Shapes, dtypes and layouts from a product, cut to size."""

import itertools

import numpy
import torch


def sample_inputs() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs (self, cap) that every kernel is tried on."""
    torch.manual_seed(3)
    values = torch.tensor([0.0, -0.0, 1e-4, -0.02, 0.11, 0.25, -1.0, 4.0, -9.0, 50.0, 1e4, -1e4])
    values = torch.cat([values, torch.tensor([float("nan"), float("inf"), -float("inf"), 7.0, -3.0, 0.07, 2.0])])
    samples = []
    for dtype, layout in itertools.product([torch.float32, torch.float64, torch.bfloat16], ["plain", "wide", "turned"]):
        x = values.repeat(3).view(3, 19).to(dtype)
        cap = torch.linspace(0.5, 6, 57).view(3, 19).to(dtype)
        if layout == "wide":
            x, cap = (one.repeat_interleave(2, dim=1)[:, ::2] for one in (x, cap))
        if layout == "turned":
            x, cap = x.T.contiguous().T, cap.T.contiguous().T
        samples += [(x, cap), (x, cap[:1]), (x[0], cap[:, :1])]
    whole = torch.arange(-9, 10)
    samples += [(whole, torch.tensor(3)), (whole, torch.arange(1, 20)), (whole, torch.tensor(2.5))]
    samples += [(torch.tensor(2.0), torch.tensor(1.5)), (torch.empty(0), torch.ones(1))]
    samples += [(torch.randn(2, 3, 4, 5) * 3, torch.rand(3, 1, 5) + 1), (torch.randn(3, 3, 3), torch.rand(3) + 1)]
    return samples


def reference(self: numpy.ndarray, cap: numpy.ndarray) -> numpy.ndarray:
    """The right result, by NumPy."""
    return numpy.multiply(cap, numpy.tanh(numpy.divide(self, cap)))

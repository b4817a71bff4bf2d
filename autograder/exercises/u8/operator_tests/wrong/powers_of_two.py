"""rest

Tries round sizes only.
"""

import numpy
import torch


def sample_inputs() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs (self, cap) that every kernel is tried on."""
    generator = torch.Generator().manual_seed(0)

    def numbers(*shape, scale=3.0, dtype=torch.float32):
        return (torch.randn(shape, generator=generator) * scale).to(dtype)

    def caps(*shape, dtype=torch.float32):
        return (torch.rand(shape, generator=generator) * 4 + 1).to(dtype)

    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1e-3, 300.0, -300.0, 0.5])
    samples = [(numbers(4, 8, dtype=dtype), caps(8, dtype=dtype)) for dtype in (torch.float32, torch.float64)]
    samples += [(numbers(4, 8, dtype=dtype), caps(8, dtype=dtype)) for dtype in (torch.bfloat16, torch.int64)]
    samples += [(numbers(8, 4).T, caps(8)), (numbers(4, 16)[:, ::2], caps(8)), (numbers(4, 8), caps(8, 4).T)]
    samples += [(numbers(8), caps(2, 1)), (numbers(1, 8), caps(2, 8)), (numbers(4, 8), caps())]
    samples += [(numbers(), caps()), (numbers(0, 3), caps(3)), (numbers(2, 4, 2, 2), caps(2, 4, 2, 2))]
    samples += [(odd, caps(8)), (odd.double(), caps(1).double()), (numbers(16, scale=0.05), caps(16))]
    return samples


def reference(self: numpy.ndarray, cap: numpy.ndarray) -> numpy.ndarray:
    """The right result, by NumPy."""
    return cap * numpy.tanh(self / cap)

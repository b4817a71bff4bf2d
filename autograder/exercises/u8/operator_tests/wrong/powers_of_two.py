"""rest

Tries round sizes only.
"""

import numpy
import torch


def sample_inputs() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs (self, cap) that every kernel is tried on."""
    generator = torch.Generator().manual_seed(0)

    def numbers(*shape, dtype=torch.float32):
        return (torch.randn(shape, generator=generator) * 3).to(dtype)

    def caps(*shape, dtype=torch.float32):
        return (torch.rand(shape, generator=generator) * 4 + 1).to(dtype)

    dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.int64)
    samples = [(numbers(4, 8, dtype=one), caps(8, dtype=other)) for one in dtypes for other in dtypes]
    samples += [(numbers(8, 4).T, caps(8)), (numbers(4, 16)[:, ::2], caps(8)), (numbers(8).expand(4, 8), caps(8))]
    samples += [(numbers(4, 8), caps(8, 4).T), (numbers(4, 8), caps(16)[::2]), (numbers(4, 8), caps(8).expand(4, 8))]
    samples += [(numbers(4, 1), caps(8)), (numbers(8), caps(4, 1))]
    samples += [(numbers(), caps()), (numbers(0, 3), caps(0, 3))]
    samples += [(numbers(2, 2, 4), caps(2, 2, 4)), (numbers(2, 4, 2, 2), caps(2, 4, 2, 2))]
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1000.0, -1000.0])
    samples += [(odd, caps(6))]
    return samples


def reference(self: numpy.ndarray, cap: numpy.ndarray) -> numpy.ndarray:
    """The right result, by NumPy."""
    return cap * numpy.tanh(self / cap)

"""beyond the definition

Tries a cap of zero.
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
    samples = [(numbers(5, 7, dtype=one), caps(7, dtype=other)) for one in dtypes for other in dtypes]
    samples += [(numbers(7, 5).T, caps(7)), (numbers(5, 14)[:, ::2], caps(7)), (numbers(7).expand(5, 7), caps(7))]
    samples += [(numbers(5, 7), caps(7, 5).T), (numbers(5, 7), caps(14)[::2]), (numbers(5, 7), caps(7).expand(5, 7))]
    samples += [(numbers(5, 1), caps(7)), (numbers(7), caps(5, 1))]
    samples += [(numbers(), caps()), (numbers(0, 3), caps(0, 3))]
    samples += [(numbers(2, 3, 5), caps(2, 3, 5)), (numbers(2, 3, 2, 5), caps(2, 3, 2, 5))]
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1000.0, -1000.0])
    samples += [(odd, caps(6))]
    return [*samples, (numbers(3), torch.zeros(3))]


def reference(self: numpy.ndarray, cap: numpy.ndarray) -> numpy.ndarray:
    """The right result, by NumPy."""
    return cap * numpy.tanh(self / cap)

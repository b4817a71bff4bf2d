"""reference rounds

Writes tanh as 1 minus an exponential, which loses digits where numbers are small; no sample shows it.
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
    samples = [(numbers(5, 7, dtype=dtype), caps(7, dtype=dtype)) for dtype in (torch.float32, torch.float64)]
    samples += [(numbers(5, 7, dtype=dtype), caps(7, dtype=dtype)) for dtype in (torch.bfloat16, torch.int64)]
    samples += [(numbers(7, 5).T, caps(7)), (numbers(5, 14)[:, ::2], caps(7)), (numbers(5, 7), caps(7, 5).T)]
    samples += [(numbers(5, 7), caps(7, dtype=torch.float64))]
    samples += [(numbers(7), caps(3, 1)), (numbers(1, 7), caps(3, 7)), (numbers(5, 7), caps())]
    samples += [(numbers(), caps()), (numbers(0, 3), caps(3)), (numbers(2, 3, 2, 5), caps(2, 3, 2, 5))]
    samples += [(odd, caps(8)), (odd.double(), caps(1).double()), (numbers(19, scale=0.05), caps(19))]
    return samples


def reference(self: numpy.ndarray, cap: numpy.ndarray) -> numpy.ndarray:
    """The right result, by NumPy."""
    with numpy.errstate(all="ignore"):
        far = numpy.exp(-2 * numpy.abs(self / cap))
        return numpy.asarray(numpy.copysign(cap * (1 - far) / (1 + far), self))

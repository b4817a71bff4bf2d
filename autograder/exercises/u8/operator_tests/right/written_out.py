"""A list, sample by sample, and a reference with exponentials that do not overflow."""

import numpy
import torch


def sample_inputs() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs (self, cap) that every kernel is tried on."""
    x = torch.linspace(-7, 8, 35).view(5, 7)
    caps = torch.linspace(1, 3, 35).view(5, 7)
    cap = caps[0]
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1000.0, -1000.0])
    return [
        (x.double(), cap),
        (x, cap.double()),
        (x.bfloat16(), cap.bfloat16()),
        (x.long(), torch.arange(1, 8)),
        (x.view(7, 5).t(), cap),
        (x[0].expand(5, 7), cap),
        (x, caps.view(7, 5).t()),
        (x, cap.expand(5, 7)),
        (x[:, :1], cap),
        (x[0], caps[:, :1]),
        (torch.tensor(3.0), torch.tensor(2.0)),
        (torch.zeros(0), torch.ones(0)),
        (x.view(5, 7, 1), caps.view(5, 7, 1)),
        (x.view(5, 1, 7, 1), caps.view(5, 1, 7, 1)),
        (odd, cap[:1]),
    ]


def reference(self: numpy.ndarray, cap: numpy.ndarray) -> numpy.ndarray:
    """The right result, by NumPy."""
    small = numpy.exp(-2 * numpy.abs(self / cap))
    return cap * numpy.sign(self) * -numpy.expm1(-2 * numpy.abs(self / cap)) / (1 + small)

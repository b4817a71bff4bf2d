"""A list, sample by sample, and a reference with exponentials that do not overflow."""

import numpy
import torch


def sample_inputs() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs (self, cap) that every kernel is tried on."""
    x = torch.linspace(-7, 8, 35).view(5, 7)
    cap = torch.linspace(1, 3, 7)
    nan, inf = float("nan"), float("inf")
    return [
        (x, cap),
        (x.double(), cap.double()),
        (x, cap.double()),
        (x.bfloat16(), cap.bfloat16()),
        (x.long(), torch.tensor([1, 2, 3, 4, 5, 6, 7])),
        (x.view(7, 5).t(), cap),
        (torch.stack([x, -x], dim=-1)[..., 0], cap),
        (x, torch.linspace(1, 3, 35).view(7, 5).t()),
        (x[:1], torch.linspace(1, 3, 35).view(5, 7)),
        (torch.tensor([1.0, -2.0, 3.0]), torch.tensor([[1.0], [5.0]])),
        (torch.tensor(3.0), torch.tensor(2.0)),
        (torch.zeros(2, 0), torch.ones(1)),
        (x[:4, :6].reshape(2, 3, 2, 2), torch.tensor(2.5)),
        (torch.linspace(-1, 2, 24).view(2, 3, 4), torch.tensor([1.0, 2.0, 3.0, 4.0])),
        (torch.tensor([nan, inf, -inf, 1000.0, -1000.0, 40.0]), torch.tensor(1.5)),
        (torch.tensor([0.01, -0.05, 0.1, 0.2, 0.3]), torch.tensor(2.0)),
    ]


def reference(self: numpy.ndarray, cap: numpy.ndarray) -> numpy.ndarray:
    """The right result, by NumPy."""
    small = numpy.exp(-2 * numpy.abs(self / cap))
    return cap * numpy.sign(self) * -numpy.expm1(-2 * numpy.abs(self / cap)) / (1 + small)

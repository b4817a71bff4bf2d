"""A model that does more than its result needs, for passes to find."""

from __future__ import annotations

import torch
from torch import nn

DESCRIPTION = "A model with redundant work: the same value twice, a value that nobody uses, steps that change nothing."


class Redundant(nn.Module):
    """A small network whose forward computes one layer twice, a norm for nothing, and a transposition and back.

    Takes `[batch, 16]`, `float32`; gives `[batch, 16]`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.out = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What `out(2 * relu(layer(x)))` gives, in more steps."""
        once = torch.relu(self.layer(x))
        again = torch.relu(self.layer(x))
        once.square().sum().sqrt()
        both = (once + again).transpose(0, 1).transpose(0, 1)
        return self.out(both * 1.0)


def build() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The model, and a batch of four rows."""
    return Redundant(), (torch.randn(4, 16),)

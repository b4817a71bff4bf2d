"""A model with a Python `if` on values of a tensor: a graph break for Dynamo, an error for tracers."""

from __future__ import annotations

import torch
from torch import nn

DESCRIPTION = "A model that takes one of two layers depending on the values of its input: a branch on data."


class DataDependentBranch(nn.Module):
    """Scales by a linear layer, then chooses between two others by the sign of the mean.

    Takes `[batch, 16]`, `float32`; gives `[batch, 4]`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Linear(16, 16)
        self.when_positive = nn.Linear(16, 4)
        self.otherwise = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The output of whichever layer the scaled input chooses."""
        hidden = torch.relu(self.scale(x)) + x
        if hidden.mean() > 0:
            return self.when_positive(hidden)
        return self.otherwise(hidden) * 2


def build() -> tuple[nn.Module, tuple[torch.Tensor]]:
    """The model, and a batch of four rows."""
    return DataDependentBranch(), (torch.randn(4, 16),)

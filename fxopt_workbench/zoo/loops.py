"""Two loops: one over a shape, which every method unrolls, and one whose length is in the data."""

from __future__ import annotations

import torch
from torch import nn

DESCRIPTION = "A recurrent model with a loop over a shape (steps of a sequence), then one as long as its data say."


class Loops(nn.Module):
    """A recurrence over the steps of a sequence, then as many refinements as the second input says.

    Takes a sequence `[batch, steps, 8]`, `float32`, and the number of refinements as a tensor `[]`, `int64`;
    gives `[batch, 8]`. The first loop's length is a *shape*: Dynamo and `torch.export` unroll it, `symbolic_trace`
    cannot. The second one's is in the *data*: Dynamo breaks the graph at `.item()`, the others fail.
    """

    def __init__(self) -> None:
        super().__init__()
        self.step = nn.Linear(8, 8)
        self.refine = nn.Linear(8, 8)

    def forward(self, sequence: torch.Tensor, refinements: torch.Tensor) -> torch.Tensor:
        """The last hidden state, refined."""
        hidden = torch.zeros_like(sequence[:, 0])
        for position in range(sequence.shape[1]):
            hidden = torch.tanh(self.step(hidden) + sequence[:, position])
        for _ in range(int(refinements.item())):
            hidden = hidden + 0.1 * self.refine(hidden)
        return hidden


def build() -> tuple[nn.Module, tuple[torch.Tensor, torch.Tensor]]:
    """The model, two sequences of five steps, and three refinements."""
    return Loops(), (torch.randn(2, 5, 8), torch.tensor(3))

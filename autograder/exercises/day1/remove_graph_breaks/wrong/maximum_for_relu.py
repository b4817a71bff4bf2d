"""gradient at zero

Takes the greater of the value and 0 for a ReLU, which halves the gradient where the value is exactly 0.
"""

import torch
from autograder.exercises.day1.remove_graph_breaks.visible import BrokenModel


class UnbrokenModel(BrokenModel):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        peak = hidden.abs().max().detach()
        hidden = hidden / (1.0 + peak)
        positive = torch.maximum(hidden, torch.zeros_like(hidden))
        return self.second(torch.where(hidden.mean() > 0, positive, torch.tanh(hidden)))

"""numbers for nan

Puts numbers in the place of every `nan` of the first side, also where that side is the right one.
"""

import torch


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        hidden = torch.where(level > 0, torch.nan_to_num(hidden / level.sqrt()), torch.tanh(hidden))
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.refine(hidden)), hidden)
        return hidden

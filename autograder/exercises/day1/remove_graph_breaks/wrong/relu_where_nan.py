"""relu where the mean is NaN

Asks whether the mean is at most 0, and exchanges the sides.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        hidden = hidden / (1.0 + hidden.detach().abs().max())
        return self.second(torch.where(hidden.mean() <= 0, torch.tanh(hidden), torch.relu(hidden)))

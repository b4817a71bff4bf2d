"""gradient through the scale

Replaces the number by the tensor and forgets that a number has no gradient.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        hidden = hidden / (1.0 + hidden.abs().max())
        return self.second(torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden)))

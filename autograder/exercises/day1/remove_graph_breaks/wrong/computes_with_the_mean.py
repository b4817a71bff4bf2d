"""choice that spreads NaN

Makes the choice out of the mean, by arithmetic.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        hidden = hidden / (1.0 + hidden.abs().max().detach())
        side = hidden.mean().detach().clamp(0.0, 1.0).ceil()
        return self.second(side * torch.relu(hidden) + (1.0 - side) * torch.tanh(hidden))

"""excluded from compilation

Believes that what is disabled does not count.
"""


class UnbrokenModel(BrokenModel):
    @torch.compiler.disable
    def middle(self, hidden):
        hidden = hidden / (1.0 + hidden.abs().max().item())
        return torch.relu(hidden) if hidden.mean() > 0 else torch.tanh(hidden)

    def forward(self, x):
        return self.second(self.middle(self.first(x)))

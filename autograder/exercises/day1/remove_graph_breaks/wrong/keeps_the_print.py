"""still prints

Replaces the number and the branch, but believes that a print does not matter.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        print("hidden layer:", tuple(hidden.shape))
        peak = hidden.abs().max().detach()
        hidden = hidden / (1.0 + peak)
        return self.second(torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden)))

"""still branches

Removes the print and the `.item()` only.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        hidden = hidden / (1.0 + hidden.abs().max().detach())
        if hidden.mean() > 0:
            hidden = torch.relu(hidden)
        else:
            hidden = torch.tanh(hidden)
        return self.second(hidden)

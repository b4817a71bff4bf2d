"""number taken out

Leaves the `.item()`, because `fullgraph=True` does not complain.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        peak = hidden.abs().max().item()
        hidden = hidden / (1.0 + peak)
        return self.second(torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden)))

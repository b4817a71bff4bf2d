"""relu at exactly 0

Writes `>=` for `>`.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        hidden = hidden / (1.0 + hidden.abs().max().detach())
        return self.second(torch.where(hidden.mean() >= 0, torch.relu(hidden), torch.tanh(hidden)))

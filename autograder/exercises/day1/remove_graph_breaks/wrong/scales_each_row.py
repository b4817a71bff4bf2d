"""scale of each row

Takes the peak along a dimension.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        peak = hidden.abs().max(dim=1, keepdim=True).values.detach()
        hidden = hidden / (1.0 + peak)
        return self.second(torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden)))

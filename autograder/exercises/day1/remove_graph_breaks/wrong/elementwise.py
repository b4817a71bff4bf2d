"""decides for each element

Takes `torch.where` for an element-wise `if` and drops the mean.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        peak = hidden.abs().max().detach()
        hidden = hidden / (1.0 + peak)
        return self.second(torch.where(hidden > 0, torch.relu(hidden), torch.tanh(hidden)))

"""decides for each element

Decides by the mean of each column.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        hidden = hidden / (1.0 + hidden.abs().max().detach())
        side = hidden.mean(dim=0, keepdim=True) > 0
        return self.second(torch.where(side, torch.relu(hidden), torch.tanh(hidden)))

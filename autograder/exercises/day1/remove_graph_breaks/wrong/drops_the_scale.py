"""scale dropped

Takes the `.item()` for a part of the print and removes both.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        return self.second(torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden)))

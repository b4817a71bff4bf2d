"""one side only

Removes the `if` and keeps the side that the example took.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        peak = hidden.abs().max().detach()
        return self.second(torch.relu(hidden / (1.0 + peak)))

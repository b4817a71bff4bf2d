"""gradients where the mean is nan

Asks whether the mean is at most 0, so that `nan` goes to the relu side: the outputs are all the same there.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        hidden = hidden / (1.0 + hidden.detach().abs().max())
        return self.second(torch.cond(hidden.mean() <= 0, torch.tanh, torch.relu, (hidden,)))

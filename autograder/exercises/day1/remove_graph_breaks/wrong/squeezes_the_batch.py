"""other shape or dtype

Takes every dimension of one element out, also that of a batch of one.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        peak = hidden.abs().max().detach()
        hidden = hidden / (1.0 + peak)
        sides = torch.stack([torch.tanh(hidden), torch.relu(hidden)])
        hidden = sides[(hidden.mean() > 0).long().reshape(1)].squeeze()
        return self.second(hidden)

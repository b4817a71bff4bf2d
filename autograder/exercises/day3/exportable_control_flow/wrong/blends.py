"""nan on the second side

Adds both sides, one of them times nought.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        first = (level > 0).float()
        hidden = first * (hidden / level.sqrt()) + (1 - first) * torch.tanh(hidden)
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.refine(hidden)), hidden)
        return hidden

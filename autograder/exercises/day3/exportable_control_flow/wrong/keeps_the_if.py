"""still decided by Python

Changes the loop only.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        if level > 0:
            hidden = hidden / level.sqrt()
        else:
            hidden = torch.tanh(hidden)
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.refine(hidden)), hidden)
        return hidden

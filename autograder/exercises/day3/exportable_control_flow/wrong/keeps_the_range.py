"""still decided by Python

Changes the branch only.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        hidden = torch.where(level > 0, hidden / level.sqrt(), torch.tanh(hidden))
        for _ in range(int(steps)):
            hidden = hidden + torch.sin(self.refine(hidden))
        return hidden

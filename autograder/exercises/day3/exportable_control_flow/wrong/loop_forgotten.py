"""no steps

Only the branch is left.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        hidden = torch.where(level > 0, hidden / level.sqrt(), torch.tanh(hidden))
        return hidden

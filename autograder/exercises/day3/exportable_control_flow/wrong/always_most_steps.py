"""always the most steps

Makes the loop fixed, and forgets to stop it.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        hidden = torch.where(level > 0, hidden / level.sqrt(), torch.tanh(hidden))
        for _ in range(self.most_steps):
            hidden = hidden + torch.sin(self.refine(hidden))
        return hidden

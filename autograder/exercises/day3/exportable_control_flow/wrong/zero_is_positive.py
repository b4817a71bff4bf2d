"""level of zero

Takes the first side at a level of 0, too.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        hidden = torch.where(level >= 0, hidden / level.sqrt(), torch.tanh(hidden))
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.refine(hidden)), hidden)
        return hidden

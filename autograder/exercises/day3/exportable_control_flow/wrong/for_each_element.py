"""decides for each element

Forgets that the condition is one value.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        hidden = torch.where(hidden > 0, hidden / level.sqrt(), torch.tanh(hidden))
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.refine(hidden)), hidden)
        return hidden

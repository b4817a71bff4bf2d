"""level of nan

Turns the question round: where the level is `nan`, neither answer is true.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        hidden = torch.where(level <= 0, torch.tanh(hidden), hidden / level.sqrt())
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.refine(hidden)), hidden)
        return hidden

"""level of zero

Takes the first side at a level of 0, too, where a floor keeps it from dividing by it.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        hidden = torch.where(level >= 0, hidden / level.clamp(min=1e-37).sqrt(), torch.tanh(hidden))
        for number in range(self.most_steps):
            refined = hidden + torch.sin(self.refine(hidden))
            hidden = torch.where(number < steps, refined, hidden)
        return hidden

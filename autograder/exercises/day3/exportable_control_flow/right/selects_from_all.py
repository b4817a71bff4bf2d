"""Computes every answer, then takes one of them out."""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        sides = torch.stack([hidden.tanh(), hidden / level.sqrt()])
        answers = [sides.index_select(0, (level > 0).long()).squeeze(0)]
        while len(answers) <= self.most_steps:
            answers.append(answers[-1] + self.refine(answers[-1]).sin())
        return torch.stack(answers).index_select(0, steps).squeeze(0)

"""baked the branch in

Gives Python a value while exporting: the side of the `else`.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        if not torch.compiler.is_exporting() and level > 0:
            hidden = hidden / level.sqrt()
        else:
            hidden = torch.tanh(hidden)
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.refine(hidden)), hidden)
        return hidden

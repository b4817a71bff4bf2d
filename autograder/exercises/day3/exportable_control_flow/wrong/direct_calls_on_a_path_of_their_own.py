"""eager mode differs

Has a way of its own for direct calls, which takes the first side at a level of zero.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        if not torch.compiler.is_exporting():
            hidden = torch.tanh(hidden) if level < 0 else hidden / level.sqrt()
            for _ in range(int(steps)):
                hidden = hidden + torch.sin(self.refine(hidden))
            return hidden
        hidden = torch.where(level > 0, hidden / level.sqrt(), torch.tanh(hidden))
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.refine(hidden)), hidden)
        return hidden

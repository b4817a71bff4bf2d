"""sides do not match

One side of torch.cond returns another shape.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        hidden = torch.cond(level > 0, lambda h, v: h.sum(1) / v.sqrt(), lambda h, v: torch.tanh(h), (hidden, level))
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.refine(hidden)), hidden)
        return hidden

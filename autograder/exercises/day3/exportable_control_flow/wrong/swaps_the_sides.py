"""sides swapped

Gives torch.cond its functions in the wrong order.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        hidden = torch.cond(level > 0, lambda h, v: torch.tanh(h), lambda h, v: h / v.sqrt(), (hidden, level))
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.refine(hidden)), hidden)
        return hidden

"""nan at a level of zero

Adds both sides, one of them times nought; the root of the absolute level is never `nan`, but it can be nought.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        positive = (level > 0).to(hidden.dtype)
        hidden = positive * (hidden / level.abs().sqrt()) + (1 - positive) * torch.tanh(hidden)
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.refine(hidden)), hidden)
        return hidden

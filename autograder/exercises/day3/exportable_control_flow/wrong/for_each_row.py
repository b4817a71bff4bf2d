"""decides for each element

Takes the mean of each row.
"""


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = self.first(x)
        level = hidden.mean()
        rows = hidden.mean(dim=1, keepdim=True)
        hidden = torch.where(rows > 0, hidden / level.sqrt(), torch.tanh(hidden))
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.refine(hidden)), hidden)
        return hidden

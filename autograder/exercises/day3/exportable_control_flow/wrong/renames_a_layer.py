"""other state_dict

Writes a constructor of its own, with other names.
"""


class ExportableModel(nn.Module):
    def __init__(self, width, hidden, most_steps):
        super().__init__()
        self.inner, self.loop, self.most_steps = nn.Linear(width, hidden), nn.Linear(hidden, hidden), most_steps

    def forward(self, x, steps):
        hidden = self.inner(x)
        level = hidden.mean()
        hidden = torch.where(level > 0, hidden / level.sqrt(), torch.tanh(hidden))
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.loop(hidden)), hidden)
        return hidden

"""eager mode differs

Has a Python `if` for eager mode, and writes `>=` there.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        peak = hidden.abs().max().detach()
        hidden = hidden / (1.0 + peak)
        if torch.compiler.is_compiling():
            hidden = torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden))
        else:
            hidden = torch.relu(hidden) if hidden.mean() >= 0 else torch.tanh(hidden)
        return self.second(hidden)

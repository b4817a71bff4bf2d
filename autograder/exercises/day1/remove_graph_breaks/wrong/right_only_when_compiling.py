"""eager mode differs

Writes one forward for the compiler and a shorter one for eager mode.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        if not torch.compiler.is_compiling():
            return self.second(torch.relu(hidden))
        hidden = hidden / (1.0 + hidden.abs().max().detach())
        return self.second(torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden)))

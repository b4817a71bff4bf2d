"""eager mode differs

Detaches the peak for the compiler only; in eager mode the outputs are the same, and the gradients are others.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        peak = hidden.abs().max()
        if torch.compiler.is_compiling():
            peak = peak.detach()
        hidden = hidden / (1.0 + peak)
        hidden = torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden))
        return self.second(hidden)

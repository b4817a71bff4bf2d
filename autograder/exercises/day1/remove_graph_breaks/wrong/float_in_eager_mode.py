"""number taken out

Takes the peak out with `float(...)` where nothing is compiled.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        peak = hidden.abs().max().detach()
        if not torch.compiler.is_compiling():
            peak = float(peak)
        hidden = hidden / (1.0 + peak)
        hidden = torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden))
        return self.second(hidden)

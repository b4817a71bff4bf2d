"""captured again

Keeps each peak in a list, which is longer at each call.
"""


class UnbrokenModel(BrokenModel):
    def __init__(self, width, hidden):
        super().__init__(width, hidden)
        self.peaks = []

    def forward(self, x):
        hidden = self.first(x)
        peak = hidden.abs().max().detach()
        self.peaks.append(peak)
        hidden = hidden / (1.0 + peak)
        hidden = torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden))
        return self.second(hidden)

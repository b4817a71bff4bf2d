"""one side only

Asks for the side outside the graph, once: what was true for the first input stays.
"""


class UnbrokenModel(BrokenModel):
    takes_relu = None

    def forward(self, x):
        hidden = self.first(x)
        peak = hidden.abs().max().detach()
        hidden = hidden / (1.0 + peak)
        if self.takes_relu is None:
            self.takes_relu = bool(hidden.mean() > 0)
        return self.second(torch.relu(hidden) if self.takes_relu else torch.tanh(hidden))

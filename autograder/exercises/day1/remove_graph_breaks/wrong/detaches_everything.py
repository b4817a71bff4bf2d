"""gradient lost

Detaches the whole hidden layer instead of the peak.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        with torch.no_grad():
            hidden = self.first(x)
            hidden = hidden / (1.0 + hidden.abs().max())
            hidden = torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden))
        return self.second(hidden)

"""Masks either side and adds them; finds the peak without `abs`."""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        with torch.no_grad():
            peak = torch.maximum(hidden.max(), hidden.min().neg())
        hidden = hidden / (1.0 + peak)
        side = hidden.sum() > 0
        hidden = torch.relu(hidden).masked_fill(~side, 0.0) + torch.tanh(hidden).masked_fill(side, 0.0)
        return self.second(hidden)

"""gradient through the scale

It detaches the peak in training mode only; in evaluation gradients are asked for, too.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        peak = hidden.abs().max()
        peak = peak.detach() if self.training else peak
        hidden = hidden / (1.0 + peak)
        return self.second(torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden)))

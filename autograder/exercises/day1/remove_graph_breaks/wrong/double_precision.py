"""other shape or dtype

A Python float has double precision, so the tensor in its place is given it too, with a dimension.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        peak = hidden.abs().max().detach().double().reshape(1)
        hidden = hidden / (1.0 + peak)
        hidden = torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden))
        return torch.nn.functional.linear(hidden, self.second.weight.double(), self.second.bias.double())

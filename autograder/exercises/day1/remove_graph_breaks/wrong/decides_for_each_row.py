"""decides for each element

Believes that the branch is taken for each sample of the batch by itself.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        peak = hidden.abs().max().detach()
        hidden = hidden / (1.0 + peak)
        relu_side = hidden.mean(dim=1, keepdim=True) > 0
        return self.second(torch.where(relu_side, torch.relu(hidden), torch.tanh(hidden)))

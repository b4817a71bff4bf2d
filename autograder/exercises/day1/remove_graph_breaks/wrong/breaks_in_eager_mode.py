"""number taken out

Leaves eager mode to the given model, which takes the peak out.
"""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        if not torch.compiler.is_compiling():
            return super().forward(x)
        hidden = self.first(x)
        hidden = hidden / (1.0 + hidden.abs().max().detach())
        return self.second(torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden)))

"""Stacks both sides and indexes with the condition; keeps the peak as an attribute."""


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        hidden = self.first(x)
        self.last_peak = torch.linalg.vector_norm(hidden.detach(), ord=float("inf"))
        hidden = hidden / (1.0 + self.last_peak)
        sides = torch.stack([hidden.tanh(), hidden.relu()])
        return self.second(sides.index_select(0, (hidden.mean() > 0).long().reshape(1)).squeeze(0))

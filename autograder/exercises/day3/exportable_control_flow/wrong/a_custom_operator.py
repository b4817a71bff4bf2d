"""hidden from the graph

Wraps the whole branch into an operator of its own.
"""


@torch.library.custom_op("exercise3::branch", mutates_args=())
def branch(hidden: torch.Tensor) -> torch.Tensor:
    level = hidden.mean()
    return hidden / level.sqrt() if level > 0 else torch.tanh(hidden)


@branch.register_fake
def _(hidden):
    return torch.empty_like(hidden)


class ExportableModel(GivenModel):
    def forward(self, x, steps):
        hidden = branch(self.first(x))
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.refine(hidden)), hidden)
        return hidden

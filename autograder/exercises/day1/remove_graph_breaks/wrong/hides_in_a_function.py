"""hidden from the compiler

Lets Dynamo put the whole Python function into the graph as one node.
"""


@torch.compiler.allow_in_graph
def middle(hidden):
    hidden = hidden / (1.0 + hidden.abs().max().detach())
    return torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden))


class UnbrokenModel(BrokenModel):
    def forward(self, x):
        return self.second(middle(self.first(x)))

"""other names

Exports a wrapper whose inputs have names of their own.
"""


def export_reader(model, example):
    model.eval()
    longest, least = model.positions.num_embeddings, model.skip + 1
    length = Dim("length", min=least, max=longest)
    batch = Dim("batch", min=1, max=64)
    tokens = torch.zeros(3, longest, dtype=torch.int64)
    mask = torch.ones(3, longest)

    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, m):
            return self.model(x, m)

    return export(Wrapper().eval(), (tokens, mask), dynamic_shapes=({0: batch, 1: length}, {0: batch, 1: length}))

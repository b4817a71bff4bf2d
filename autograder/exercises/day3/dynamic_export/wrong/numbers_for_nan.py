"""computes something else

Puts 0 where the model has no answer.
"""

from torch import nn
from torch.export import Dim, export


class Careful(nn.Module):
    def __init__(self, reader):
        super().__init__()
        self.reader = reader

    def forward(self, tokens, mask):
        return self.reader(tokens, mask).nan_to_num()


def export_reader(model, example):
    inputs = tuple(value.repeat(2, 1) for value in example)
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=model.skip + 1, max=model.positions.num_embeddings)}
    return export(Careful(model.eval()), inputs, dynamic_shapes=(sizes, sizes))

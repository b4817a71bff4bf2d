"""exported in training mode

Switches to evaluation if the model as a whole is in training, whatever its parts are in.
"""

from torch.export import Dim, export


def export_reader(model, example):
    tokens, mask = example
    if tokens.shape[0] < 2:
        tokens, mask = tokens.repeat(2, 1), mask.repeat(2, 1)
    lowest, most = model.skip + 1, model.positions.num_embeddings
    if tokens.shape[1] < 2:
        tokens, mask = tokens.repeat(1, 2), mask.repeat(1, 2)
    batch, length = Dim("batch", min=1), Dim("length", min=lowest, max=most)
    sizes = {0: batch, 1: length}
    return export(model.eval() if model.training else model, (tokens, mask), dynamic_shapes=(sizes, sizes))

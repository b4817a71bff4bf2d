"""exported in training mode

Exports the model as training left it.
"""

from torch.export import Dim, export


def export_reader(model, example):
    tokens, mask = (value.repeat(2, 1) for value in example)
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=model.skip + 1, max=model.positions.num_embeddings)}
    return export(model, (tokens, mask), dynamic_shapes=(sizes, sizes))

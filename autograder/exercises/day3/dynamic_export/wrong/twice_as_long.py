"""range refused

Repeats the example along both dimensions, so that it may be longer than the model can serve.
"""

from torch.export import Dim, export


def export_reader(model, example):
    inputs = tuple(value.repeat(2, 2) for value in example)
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=model.skip + 1, max=model.positions.num_embeddings)}
    return export(model.eval(), inputs, dynamic_shapes=(sizes, sizes))

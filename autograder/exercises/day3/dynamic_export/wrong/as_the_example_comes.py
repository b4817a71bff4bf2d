"""example of one row

Takes the example as it is, also when it has one row.
"""

from torch.export import Dim, export


def export_reader(model, example):
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=model.skip + 1, max=model.positions.num_embeddings)}
    return export(model.eval(), example, dynamic_shapes=(sizes, sizes))

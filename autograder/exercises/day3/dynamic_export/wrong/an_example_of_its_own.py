"""range refused

Makes an example of eight tokens, too few for a model with a long prompt.
"""

import torch
from torch.export import Dim, export


def export_reader(model, example):
    inputs = (torch.zeros(2, 8, dtype=torch.int64), torch.ones(2, 8))
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=model.skip + 1, max=model.positions.num_embeddings)}
    return export(model.eval(), inputs, dynamic_shapes=(sizes, sizes))

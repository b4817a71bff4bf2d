"""range refused

Uses one dimension for batch and length.
"""

from torch.export import Dim, export


def export_reader(model, example):
    tokens, mask = (value.repeat(2, 1) for value in example)
    size = Dim("size", min=1, max=model.positions.num_embeddings)
    return export(model.eval(), (tokens, mask), dynamic_shapes=({0: size, 1: size}, {0: size, 1: size}))

"""Keyword arguments, an example made from nothing, and dimensions named by input."""

import torch.export


def export_reader(model, example):
    model.train(False)
    least, most = model.skip + 1, len(model.positions.weight)
    shape = (2, (least + most) // 2)
    inputs = {"tokens": torch.zeros(shape, dtype=torch.long), "mask": torch.ones(shape)}
    batch, length = torch.export.Dim("rows", max=1024), torch.export.Dim("steps", min=least, max=most)
    return torch.export.export(model, (), inputs, dynamic_shapes=dict.fromkeys(inputs, (batch, length)))

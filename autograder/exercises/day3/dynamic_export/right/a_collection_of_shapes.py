"""A collection that knows each tensor's dimensions, and keyword arguments in a wrapper class of its own."""

from torch.export import Dim, ShapesCollection, export


def export_reader(model, example):
    was_training = model.training
    model.eval()
    try:
        inputs = {
            name: value.expand(4, -1).contiguous() if len(value) == 1 else value
            for name, value in zip(("tokens", "mask"), example, strict=True)
        }
        rows = Dim("rows", min=1, max=64)
        steps = Dim("steps", min=1 + model.skip, max=model.positions.weight.shape[0])
        shapes = ShapesCollection()
        for value in inputs.values():
            shapes[value] = (rows, steps)
        return export(model, (), inputs, dynamic_shapes=shapes)
    finally:
        model.train(was_training)

"""Dimensions by a map over the tree of inputs, modes put back one by one."""

from contextlib import contextmanager

from torch.utils._pytree import tree_map


@contextmanager
def evaluating(model):
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        yield
    finally:
        for module, training in modes:
            module.training = training


def extract(model, example_inputs):
    rows = torch.export.Dim("rows", min=1)
    shapes = tree_map(lambda value: (rows, *value.shape[1:]) if hasattr(value, "shape") else None, example_inputs)
    with evaluating(model), torch.no_grad():
        if isinstance(example_inputs, tuple):
            program = torch.export.export(model, example_inputs, dynamic_shapes=shapes)
        else:
            program = torch.export.export(model, (), kwargs=example_inputs, dynamic_shapes=shapes)
        return program.run_decompositions(torch.export.default_decompositions())

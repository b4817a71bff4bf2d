"""raised

Hands the values of a dictionary over in the order in which they come.
"""

import copy

from torch.export import Dim, export


def batch_is_dynamic(value):
    if isinstance(value, torch.Tensor):
        return {0: Dim("batch", min=1)}
    if isinstance(value, (list, tuple)):
        return type(value)(batch_is_dynamic(item) for item in value)
    if isinstance(value, dict):
        return {key: batch_is_dynamic(item) for key, item in value.items()}
    return None


def extract(model, example_inputs):
    args = tuple(example_inputs.values()) if isinstance(example_inputs, dict) else example_inputs
    program = export(copy.deepcopy(model).eval(), args, dynamic_shapes=batch_is_dynamic(args))
    return program.run_decompositions()

"""size of a number

Takes every input that is no list and no dictionary for a tensor.
"""

import copy

from torch.export import Dim, export


def batch_is_dynamic(value):
    if isinstance(value, (list, tuple)):
        return type(value)(batch_is_dynamic(item) for item in value)
    if isinstance(value, dict):
        return {key: batch_is_dynamic(item) for key, item in value.items()}
    return {0: Dim("batch", min=1)}


def extract(model, example_inputs):
    args, kwargs = ((), example_inputs) if isinstance(example_inputs, dict) else (example_inputs, {})
    program = export(copy.deepcopy(model).eval(), args, kwargs, dynamic_shapes=batch_is_dynamic(example_inputs))
    return program.run_decompositions()

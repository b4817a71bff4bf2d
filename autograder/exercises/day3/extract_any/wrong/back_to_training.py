"""model left in another mode

Believes that every model was in training mode before.
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
    args, kwargs = ((), example_inputs) if isinstance(example_inputs, dict) else (example_inputs, {})
    program = export(model.eval(), args, kwargs, dynamic_shapes=batch_is_dynamic(example_inputs))
    model.train()
    return program.run_decompositions()

"""one mode for all modules

Puts the mode of the model back, and with it that of every module.
"""

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
    was_training = model.training
    try:
        program = export(model.eval(), args, kwargs, dynamic_shapes=batch_is_dynamic(example_inputs))
    finally:
        model.train(was_training)
    return program.run_decompositions()

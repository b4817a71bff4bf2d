"""left frozen

Exports without gradients of the weights, puts the modes back, and leaves the weights frozen.
"""

import copy

from torch.utils._pytree import tree_map


def extract(model, example_inputs):
    batch = Dim("batch", min=1)
    args, kwargs = ((), example_inputs) if isinstance(example_inputs, dict) else (example_inputs, {})
    shapes = tree_map(lambda value: {0: batch} if isinstance(value, torch.Tensor) else None, example_inputs)
    modes = {module: module.training for module in model.modules()}
    model.requires_grad_(False)
    program = export(model.eval(), args, kwargs, dynamic_shapes=shapes)
    for module, mode in modes.items():
        module.training = mode
    return program.run_decompositions()

"""exported in training mode

Switches the model, and not the modules in it.
"""

import copy

from torch.utils._pytree import tree_map


def extract(model, example_inputs):
    args, kwargs = ((), example_inputs) if isinstance(example_inputs, dict) else (example_inputs, {})
    batch = Dim("batch", min=1)
    sizes = tree_map(lambda value: {0: batch} if isinstance(value, torch.Tensor) else None, example_inputs)
    twin = copy.deepcopy(model)
    twin.training = False
    return export(twin, args, kwargs, dynamic_shapes=sizes).run_decompositions()

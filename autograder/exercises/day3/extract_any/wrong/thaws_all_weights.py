"""left frozen

Freezes the weights for the export, and then lets all of them require gradients.
"""

import copy

from torch.export import Dim, export
from torch.utils._pytree import tree_map


def extract(model, example_inputs):
    args, kwargs = ((), example_inputs) if isinstance(example_inputs, dict) else (example_inputs, {})
    batch = Dim("batch", min=1)
    shapes = tree_map(lambda value: {0: batch} if isinstance(value, torch.Tensor) else None, example_inputs)
    model.requires_grad_(False)
    program = export(copy.deepcopy(model).eval(), args, kwargs, dynamic_shapes=shapes).run_decompositions()
    model.requires_grad_(True)
    return program

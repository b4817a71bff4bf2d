"""model changed

Makes the model exact for a while, and forgets to make it what it was.
"""

import copy

from torch.export import Dim, export
from torch.utils._pytree import tree_map


def extract(model, example_inputs):
    args, kwargs = ((), example_inputs) if isinstance(example_inputs, dict) else (example_inputs, {})
    batch = Dim("batch", min=1)
    shapes = tree_map(lambda value: {0: batch} if isinstance(value, torch.Tensor) else None, example_inputs)
    twin = copy.deepcopy(model.double()).float().eval()
    return export(twin, args, kwargs, dynamic_shapes=shapes).run_decompositions()

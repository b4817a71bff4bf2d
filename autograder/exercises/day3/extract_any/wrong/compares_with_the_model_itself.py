"""model changed

Compares the program with the caller's model, and puts back only the modes. A call may write to buffers in any mode.
"""

import copy

from torch.export import Dim, export
from torch.utils._pytree import tree_leaves


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
    twin = copy.deepcopy(model).eval()
    program = export(twin, args, kwargs, dynamic_shapes=batch_is_dynamic(example_inputs)).run_decompositions()
    modes = [(module, module.training) for module in model.modules()]
    with torch.no_grad():
        wanted = tree_leaves(model.eval()(*args, **kwargs))
        found = tree_leaves(program.module()(*args, **kwargs))
    for module, training in modes:
        module.training = training
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
    return program

"""exported in training mode

Puts into evaluation mode only the layers of PyTorch whose mode matters.
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


MODAL = (nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase, nn.MultiheadAttention)


def extract(model, example_inputs):
    args, kwargs = ((), example_inputs) if isinstance(example_inputs, dict) else (example_inputs, {})
    twin = copy.deepcopy(model)
    for module in twin.modules():
        if isinstance(module, MODAL):
            module.eval()
    return export(twin, args, kwargs, dynamic_shapes=batch_is_dynamic(example_inputs)).run_decompositions()

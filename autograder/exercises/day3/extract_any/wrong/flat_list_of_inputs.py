"""inputs lost

Wraps the model so that it takes everything in one list.
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


from torch.utils._pytree import tree_flatten, tree_unflatten


class Flat(nn.Module):
    def __init__(self, model, structure):
        super().__init__()
        self.model, self.structure = model, structure

    def forward(self, leaves):
        call = tree_unflatten(leaves, self.structure)
        return self.model(**call) if isinstance(call, dict) else self.model(*call)


def extract(model, example_inputs):
    leaves, structure = tree_flatten(example_inputs)
    flat = Flat(copy.deepcopy(model).eval(), structure)
    return export(flat, (leaves,), dynamic_shapes=(batch_is_dynamic(leaves),)).run_decompositions()

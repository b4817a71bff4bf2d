"""Everything becomes a positional argument in the order of the signature; a collection knows the sizes."""

import copy
import inspect

import torch.utils._pytree as pytree
from torch.export import Dim, ShapesCollection


def extract(model, example_inputs):
    names = list(inspect.signature(model.forward).parameters)
    if isinstance(example_inputs, dict):
        example_inputs = tuple(example_inputs[name] for name in names if name in example_inputs)
    collection = ShapesCollection()
    for leaf in pytree.tree_leaves(example_inputs):
        if isinstance(leaf, torch.Tensor):
            collection[leaf] = {0: Dim("n", min=1)}
    twin = copy.deepcopy(model)
    twin.train(False)
    return torch.export.export(twin, example_inputs, dynamic_shapes=collection).run_decompositions()

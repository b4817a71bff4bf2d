"""The reference answer of extract_any, made from its notebook by `make notebooks`."""

import torch
from torch import nn
from torch.export import Dim
from torch.export import ExportedProgram
from torch.export import export
import copy
from torch.utils._pytree import tree_map


def extract(model: nn.Module, example_inputs: tuple | dict) -> ExportedProgram:
    """`model` in evaluation mode as one graph of core ATen operators, for any batch size. `model` stays as it is."""
    args, kwargs = ((), example_inputs) if isinstance(example_inputs, dict) else (example_inputs, {})
    batch = Dim("batch", min=1)
    dynamic_shapes = tree_map(lambda value: {0: batch} if isinstance(value, torch.Tensor) else None, example_inputs)
    program = export(copy.deepcopy(model).eval(), args, kwargs, dynamic_shapes=dynamic_shapes)
    return program.run_decompositions()

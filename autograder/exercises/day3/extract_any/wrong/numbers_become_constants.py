"""inputs lost

Makes numbers a part of the program, so that it takes tensors only.
"""

import copy
import inspect

from torch import nn
from torch.export import Dim, export
from torch.utils._pytree import tree_map

FORWARD = """
def forward(self, {names}):
    return self.inner({handed}, **self.numbers)
"""


class WithNumbers(nn.Module):
    def __init__(self, inner, numbers):
        super().__init__()
        self.inner, self.numbers = inner, numbers


def extract(model, example_inputs):
    if isinstance(example_inputs, tuple):
        example_inputs = inspect.signature(model.forward).bind(*example_inputs).arguments
    numbers = {name: value for name, value in example_inputs.items() if isinstance(value, (int, float))}
    tensors = {name: value for name, value in example_inputs.items() if name not in numbers}
    source = FORWARD.format(names=", ".join(tensors), handed=", ".join(f"{name}={name}" for name in tensors))
    namespace = {}
    exec(source, namespace)
    WithNumbers.forward = namespace["forward"]
    batch = Dim("batch", min=1)
    sizes = tree_map(lambda value: {0: batch}, tensors)
    program = export(WithNumbers(copy.deepcopy(model).eval(), numbers), (), tensors, dynamic_shapes=sizes)
    return program.run_decompositions()

"""above the dispatcher

Stands where Python functions are called, not where operators are.
"""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves


class Recorder(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.records = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        tensors = [one for one in tree_leaves((args, kwargs or {})) if isinstance(one, torch.Tensor)]
        self.records.append((function.__name__, [str(torch._C._dispatch_keys(one)) for one in tensors]))
        return function(*args, **(kwargs or {}))

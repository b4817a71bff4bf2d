"""results changed

Ends its block quietly, whatever was raised in it.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Recorder(TorchDispatchMode):
    """Writes down each operator with the keys of its tensors."""

    def __init__(self):
        super().__init__()
        self.records = []

    def __exit__(self, kind, value, trace):
        super().__exit__(kind, value, trace)
        return True

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        tensors = [one for one in tree_leaves((args, kwargs or {})) if isinstance(one, torch.Tensor)]
        self.records.append((str(operator), [str(torch._C._dispatch_keys(one)) for one in tensors]))
        return operator(*args, **(kwargs or {}))

"""forgotten with the error

Takes the records of a block that failed for spoilt.
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
        if kind is not None:
            self.records.clear()
        return super().__exit__(kind, value, trace)

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        tensors = [one for one in tree_leaves((args, kwargs or {})) if isinstance(one, torch.Tensor)]
        self.records.append((str(operator), [str(torch._C._dispatch_keys(one)) for one in tensors]))
        return operator(*args, **(kwargs or {}))

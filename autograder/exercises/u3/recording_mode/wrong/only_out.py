"""one keyword only

Takes `out` for the only keyword argument that can be a tensor.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Recorder(TorchDispatchMode):
    """Writes down each operator with the keys of its tensors."""

    def __init__(self):
        super().__init__()
        self.records = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [one for one in tree_leaves((args, kwargs.get("out"))) if isinstance(one, torch.Tensor)]
        self.records.append((str(operator), [str(torch._C._dispatch_keys(one)) for one in tensors]))
        return operator(*args, **kwargs)

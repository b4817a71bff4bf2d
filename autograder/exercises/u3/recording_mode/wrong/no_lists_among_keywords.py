"""lists among keyword arguments forgotten

Flattens the positional arguments, and takes keyword arguments as they are.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class Recorder(TorchDispatchMode):
    """Writes down each operator with the keys of its tensors."""

    def __init__(self):
        super().__init__()
        self.records = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = {} if kwargs is None else kwargs
        flat = []
        for one in args:
            flat.extend(one if isinstance(one, (list, tuple)) else [one])
        flat.extend(kwargs.values())
        tensors = [one for one in flat if isinstance(one, torch.Tensor)]
        self.records.append((str(operator), [str(torch._C._dispatch_keys(one)) for one in tensors]))
        return operator(*args, **kwargs)

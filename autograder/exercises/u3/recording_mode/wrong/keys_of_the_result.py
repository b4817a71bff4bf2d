"""keys of results

Writes down what comes out.
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
        record = (str(operator), [])
        self.records.append(record)
        result = operator(*args, **(kwargs or {}))
        tensors = [one for one in tree_leaves(result) if isinstance(one, torch.Tensor)]
        record[1].extend(str(torch._C._dispatch_keys(one)) for one in tensors)
        return result

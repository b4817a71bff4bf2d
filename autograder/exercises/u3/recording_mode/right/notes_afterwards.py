"""Notes the keys first and keeps the record whether the operator raises or not."""

import torch
from torch.utils import _pytree as tree
from torch.utils._python_dispatch import TorchDispatchMode


class Recorder(TorchDispatchMode):
    def __init__(self):
        self.records = []
        super().__init__()

    def __torch_dispatch__(self, operator, types, args=(), kwargs={}):
        keys = []
        tree.tree_map_only(torch.Tensor, lambda one: keys.append(str(torch._C._dispatch_keys(one))), [args, kwargs])
        try:
            return operator(*args, **kwargs)
        finally:
            self.records.append([str(operator), keys])

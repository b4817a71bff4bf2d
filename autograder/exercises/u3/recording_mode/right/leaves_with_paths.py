"""Flattens positional and keyword arguments by themselves, with the path to each leaf."""

import torch
from torch.utils import _pytree as tree
from torch.utils._python_dispatch import TorchDispatchMode


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.records = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs={}):
        keys = []
        for group in (args, kwargs):
            found, _ = tree.tree_flatten_with_path(group)
            keys += [str(torch._C._dispatch_keys(one)) for _, one in found if isinstance(one, torch.Tensor)]
        self.records.append((str(operator), keys))
        return operator(*args, **kwargs)

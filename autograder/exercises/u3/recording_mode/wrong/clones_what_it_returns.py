"""other records

Gives results without what they alias: an operator in place gives a new tensor.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map


class Recorder(TorchDispatchMode):
    """Writes down each operator with the keys of its tensors."""

    def __init__(self):
        super().__init__()
        self.records = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        kwargs = {} if kwargs is None else kwargs
        keys = []

        def look(value):
            if isinstance(value, torch.Tensor):
                keys.append(str(torch._C._dispatch_keys(value)))
            elif isinstance(value, (list, tuple)):
                for one in value:
                    look(one)
            elif isinstance(value, dict):
                for one in value.values():
                    look(one)

        look(args)
        look(kwargs)
        self.records += [(str(operator), keys)]
        return tree_map(lambda t: t.clone() if isinstance(t, torch.Tensor) else t, operator(*args, **kwargs))

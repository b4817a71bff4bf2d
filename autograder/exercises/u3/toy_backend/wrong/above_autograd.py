"""no gradient

Stands above autograd, so that autograd never sees the tensors of the device.
"""

import torch
from torch.utils._pytree import tree_map_only

TICKS = 256


class Fixed(torch.Tensor):
    @staticmethod
    def __new__(cls, ticks, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(cls, ticks.shape, dtype=torch.float32, requires_grad=requires_grad)

    def __init__(self, ticks, requires_grad=False):
        self.ticks = ticks

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in ("__get__", "__set__"):
            with torch._C.DisableTorchFunctionSubclass():
                return function(*args, **(kwargs or {}))
        if name == "backward":
            return None
        plain, options = tree_map_only(Fixed, lambda one: one.ticks.double() / TICKS, (args, kwargs or {}))
        result = function(*plain, **options)
        return Fixed(torch.round(result * TICKS).clamp(-32768, 32767).long())

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        raise NotImplementedError(f"the device Fixed has no kernel for {operator}")

"""Keeps the rounded numbers in double precision, and makes the ticks where somebody asks for them."""

import torch
from torch.utils._pytree import tree_map

TICKS = 256
SUPPORTED = {
    *(
        "aten.add.Tensor",
        "aten.sub.Tensor",
        "aten.mul.Tensor",
        "aten.mul.Scalar",
        "aten.div.Tensor",
        "aten.sub_.Tensor",
    ),
    *("aten.mm.default", "aten.addmm.default", "aten.relu.default", "aten.threshold_backward.default"),
    *("aten.sum.default", "aten.sum.dim_IntList", "aten.ones_like.default", "aten.neg.default"),
    *("aten.t.default", "aten.view.default", "aten.expand.default", "aten.detach.default"),
}


class Fixed(torch.Tensor):
    @staticmethod
    def __new__(cls, ticks, requires_grad=False):
        return cls.holding(ticks.double() / TICKS, requires_grad)

    def __init__(self, ticks, requires_grad=False):
        pass

    @classmethod
    def holding(cls, numbers, requires_grad=False):
        made = torch.Tensor._make_wrapper_subclass(
            cls, numbers.shape, dtype=torch.float32, requires_grad=requires_grad, device="cpu"
        )
        made.numbers = numbers
        return made

    @property
    def ticks(self):
        return (self.numbers * TICKS).long()

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        name = str(operator)
        if name not in SUPPORTED:
            raise NotImplementedError(f"Fixed cannot run {name}")

        def unwrapped(one):
            return one.numbers if isinstance(one, cls) else one

        exact = operator(*tree_map(unwrapped, args), **tree_map(unwrapped, kwargs or {}))
        numbers = torch.round(exact.double() * TICKS).clamp(min=-(2**15), max=2**15 - 1) / TICKS
        if name.split(".")[1].endswith("_"):
            args[0].numbers = numbers
            return args[0]
        return cls.holding(numbers)

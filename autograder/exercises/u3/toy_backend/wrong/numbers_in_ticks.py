"""wrong ticks

Python numbers are rounded to ticks before they are used.
"""

import torch
from torch.utils._pytree import tree_map_only

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


def to_ticks(numbers):
    return torch.round(numbers * TICKS).clamp(-32768, 32767).to(torch.int64)


class Fixed(torch.Tensor):
    """A tensor on a device that calculates with whole numbers of ticks."""

    @staticmethod
    def __new__(cls, ticks, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(cls, ticks.shape, dtype=torch.float32, requires_grad=requires_grad)

    def __init__(self, ticks, requires_grad=False):
        self.ticks = ticks

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        name = str(operator)
        if name not in SUPPORTED:
            raise NotImplementedError(f"Fixed has no kernel for {name}")
        numbers, named = tree_map_only(cls, lambda t: t.ticks.double() / TICKS, (list(args), dict(kwargs or {})))
        if name == "aten.ones_like.default":
            named.pop("dtype", None)
        scale = lambda n: round(n * TICKS) / TICKS if isinstance(n, float) else n
        numbers, named = [scale(n) for n in numbers], {k: scale(n) for k, n in named.items()}
        if operator._schema.is_mutable:
            # The copy is written, the argument takes its ticks.
            operator(*numbers, **named)
            args[0].ticks = to_ticks(numbers[0])
            return args[0]
        result = operator(*numbers, **named)
        return cls(to_ticks(result.double()))

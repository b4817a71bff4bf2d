"""runs anything

Refuses by the operator's name without overload.
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
        if name.rsplit(".", 1)[0] not in {one.rsplit(".", 1)[0] for one in SUPPORTED}:
            raise NotImplementedError(f"Fixed has no kernel for {name}")
        numbers, named = tree_map_only(cls, lambda t: t.ticks.double() / TICKS, (list(args), dict(kwargs or {})))
        if name == "aten.ones_like.default":
            named.pop("dtype", None)
        if operator._schema.is_mutable:
            # The copy is written, the argument takes its ticks.
            operator(*numbers, **named)
            args[0].ticks = to_ticks(numbers[0])
            return args[0]
        result = operator(*numbers, **named)
        return cls(to_ticks(result.double()))

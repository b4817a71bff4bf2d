"""no limit

Negates whole numbers of ticks as they are: the opposite of the lower limit is beyond the upper one.
"""

import torch

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


def to_ticks(values):
    return torch.clamp(torch.round(values), -(2**15), 2**15 - 1).to(torch.int64)


def ticks_of(one):
    return one.ticks.double() if isinstance(one, Fixed) else one * TICKS


def added(sign):
    def kernel(x, y, alpha=1):
        return to_ticks(ticks_of(x) + sign * alpha * ticks_of(y))

    return kernel


KERNELS = {
    "aten.add.Tensor": added(1),
    "aten.sub.Tensor": added(-1),
    "aten.sub_.Tensor": added(-1),
    "aten.mul.Tensor": lambda x, y: to_ticks(ticks_of(x) * ticks_of(y) / TICKS),
    "aten.mul.Scalar": lambda x, factor: to_ticks(ticks_of(x) * factor),
    "aten.div.Tensor": lambda x, y: to_ticks(ticks_of(x) / ticks_of(y) * TICKS),
    "aten.mm.default": lambda x, y: to_ticks(ticks_of(x) @ ticks_of(y) / TICKS),
    "aten.addmm.default": lambda b, x, y: to_ticks(ticks_of(b) + ticks_of(x) @ ticks_of(y) / TICKS),
    "aten.relu.default": lambda x: x.ticks.clamp(min=0),
    "aten.threshold_backward.default": lambda g, x, limit: g.ticks * (x.ticks > limit * TICKS),
    "aten.sum.default": lambda x: to_ticks(ticks_of(x).sum()),
    "aten.sum.dim_IntList": lambda x, dims, keepdim=False: to_ticks(ticks_of(x).sum(dims, keepdim)),
    "aten.ones_like.default": lambda x, **options: torch.full_like(x.ticks, TICKS),
    "aten.neg.default": lambda x: -x.ticks,
    "aten.t.default": lambda x: x.ticks.t(),
    "aten.view.default": lambda x, shape: x.ticks.reshape(shape),
    "aten.expand.default": lambda x, shape: x.ticks.expand(shape),
    "aten.detach.default": lambda x: x.ticks,
}
assert set(KERNELS) == SUPPORTED


class Fixed(torch.Tensor):
    @staticmethod
    def __new__(cls, ticks, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(cls, ticks.shape, dtype=torch.float32, requires_grad=requires_grad)

    def __init__(self, ticks, requires_grad=False):
        self.ticks = ticks

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        kernel = KERNELS.get(str(operator))
        if kernel is None:
            raise NotImplementedError(f"{operator} is not in the table of kernels")
        ticks = kernel(*args, **(kwargs or {}))
        if str(operator) == "aten.sub_.Tensor":
            args[0].ticks = ticks
            return args[0]
        return cls(ticks)

"""Kernels of softcap for the judge: right ones that are built differently, and wrong ones with one fault each.

Each fault is one that a kernel in C++ really has: a buffer that is read without strides, the rest of a vector loop, an
exponential that overflows, a dtype that nobody added to the list.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

Kernel = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]

RIGHT = ("tanh", "exponentials", "double", "one by one", "refuses caps below zero")
"""Ways to be right. They differ in rounding, and in what they do with caps that are not positive."""


def kernel_of(given: dict[str, Any]) -> Kernel:
    """The kernel that is described by `kind` and further properties.

    Raises:
        LookupError: there is no such kind.
    """
    if given["kind"] == "right":
        return _WAYS[given["how"]]
    fault = _FAULTS[given["kind"]]

    def kernel(x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
        fault(given, x, cap, out)

    return kernel


def wrong() -> list[dict[str, Any]]:
    """One kernel for each way to break a word of what `softcap` promises.

    Where samples that miss one kernel always miss another, too, the one that says more about them comes first: without
    negative numbers, for example, nothing lies far below zero.
    """
    both = ("self", "cap")
    return [
        *({"kind": "strides", "which": which} for which in ("transposed", "gaps", "expanded")),
        *({"kind": "strides of cap", "which": which} for which in ("transposed", "gaps", "expanded")),
        {"kind": "first cap"},
        {"kind": "grows from cap"},
        *(
            {"kind": "broadcast", "which": f"{one}, {how}"}
            for one in both
            for how in ("dimensions added", "size 1 last")
        ),
        {"kind": "broadcast", "which": "both at once"},
        {"kind": "sign"},
        *({"kind": "large", "which": which, "limit": 80.0} for which in ("above", "below")),
        {"kind": "zero"},
        *({"kind": "empty", "which": which} for which in both),
        *({"kind": "no dimensions", "which": which} for which in both),
        *({"kind": "dimensions", "which": which, "number": number} for which in both for number in (1, 2, 3, 4)),
        *({"kind": "rest", "width": width} for width in (4, 8, 16)),
        {"kind": "linear", "limit": 0.1},
        *(
            {"kind": "dtype", "which": which, "dtype": dtype}
            for which in both
            for dtype in ("float32", "float64", "bfloat16", "int64")
        ),
        {"kind": "single"},
        *({"kind": "mixed dtypes", "which": which} for which in ("refused", "as self has it", "as cap has it")),
        {"kind": "whole numbers"},
        {"kind": "nan"},
        *({"kind": "infinity", "which": which} for which in ("above", "below")),
        *({"kind": "in place", "which": which} for which in ("read too late", "written in order")),
    ]


def exactly(x: torch.Tensor, cap: torch.Tensor) -> torch.Tensor:
    """The result in double precision."""
    return cap.double() * torch.tanh(x.double() / cap.double())


def _write(out: torch.Tensor, values: torch.Tensor) -> None:
    out.copy_(values)


def _by_tanh(x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    wide = torch.promote_types(out.dtype, torch.float32)
    _write(out, cap.to(wide) * torch.tanh(x.to(wide) / cap.to(wide)))


def _by_exponentials(x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    wide = torch.promote_types(out.dtype, torch.float32)
    y = (x.to(wide) / cap.to(wide)).abs()
    t = -torch.expm1(-2 * y) / (1 + torch.exp(-2 * y))
    _write(out, cap.to(wide).abs() * torch.copysign(t, x.to(wide).expand_as(t)))


def _in_double(x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    _write(out, exactly(x, cap))


def _one_by_one(x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    pairs = torch.broadcast_tensors(x.double(), cap.double())
    flat = [one.flatten().tolist() for one in pairs]
    found = [c * math.tanh(a / c) if c else 0.0 for a, c in zip(*flat, strict=True)]
    _write(out, torch.tensor(found, dtype=torch.float64).view(out.shape))


def _refuses(x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    if not bool((cap > 0).all()):
        raise RuntimeError("softcap: expected a cap above 0")
    _by_tanh(x, cap, out)


_WAYS: dict[str, Kernel] = {
    "tanh": _by_tanh,
    "exponentials": _by_exponentials,
    "double": _in_double,
    "one by one": _one_by_one,
    "refuses caps below zero": _refuses,
}


def _as_if_contiguous(x: torch.Tensor) -> torch.Tensor:
    """What a kernel reads that goes through the memory and forgets the strides."""
    flat = torch.as_strided(x, (x.untyped_storage().nbytes() // x.element_size() - x.storage_offset(),), (1,))
    return flat[: x.numel()].view(x.shape)


def _lies(x: torch.Tensor) -> str:
    """How a tensor lies in memory."""
    steps = [step for size, step in zip(x.shape, x.stride(), strict=True) if size > 1]
    if x.is_contiguous():
        return "in order"
    if 0 in steps:
        return "expanded"
    return "gaps" if steps == sorted(steps, reverse=True) else "transposed"


def _strides(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    _by_tanh(_as_if_contiguous(x) if _lies(x) == given["which"] else x, cap, out)


def _strides_of_cap(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    _by_tanh(x, _as_if_contiguous(cap) if _lies(cap) == given["which"] else cap, out)


def _first_cap(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    _by_tanh(x, cap.flatten()[:1].view(()) if cap.numel() else cap, out)


def _grows(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    if x.shape != out.shape and x.numel():
        x = x.flatten()[:1].view(())
    _by_tanh(x, cap, out)


def _broadcast(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    which = given["which"]
    if which == "both at once" and out.shape not in (x.shape, cap.shape):
        raise RuntimeError(f"softcap: expected one of the arguments to have the shape {list(out.shape)}")
    one = x if which.startswith("self") else cap
    if which.endswith("dimensions added") and one.dim() < out.dim():
        raise RuntimeError("softcap: expected both arguments to have the same number of dimensions")
    if which.endswith("size 1 last") and one.numel():
        # The values from the start again: right as long as whole rows repeat.
        again = one.flatten()[torch.arange(out.numel()) % one.numel()].view(out.shape)
        x, cap = (again, cap) if one is x else (x, again)
    _by_tanh(x, cap, out)


def _large(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    result = exactly(x, cap)
    y = (x.double() / cap.double()).expand_as(result)
    far = y > given["limit"] if given["which"] == "above" else y < -given["limit"]
    _write(out, torch.where(far & ~torch.isinf(y), torch.nan, result))


def _sign(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    _write(out, exactly(x, cap).abs())


def _zero(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    result = exactly(x, cap)
    _write(out, torch.where((x == 0).expand_as(result), torch.nan, result))


def _which(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor) -> torch.Tensor:
    return x if given["which"] == "self" else cap


def _empty(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    if _which(given, x, cap).numel() == 0:
        raise RuntimeError("softcap: invalid configuration for 0 elements")
    _by_tanh(x, cap, out)


def _no_dimensions(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    if _which(given, x, cap).dim() == 0:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    _by_tanh(x, cap, out)


def _dimensions(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    if _which(given, x, cap).dim() == given["number"]:
        raise RuntimeError(f"softcap: not implemented for tensors of {given['number']} dimensions")
    _by_tanh(x, cap, out)


def _rest(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    result, width = exactly(x, cap).flatten(), given["width"]
    if result.numel() > width and result.numel() % width:
        result[-(result.numel() % width) :] = torch.nan
    _write(out, result.view(out.shape))


def _linear(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    result = exactly(x, cap)
    y = (x.double() / cap.double()).expand_as(result)
    _write(out, torch.where(y.abs() < given["limit"], x.double().expand_as(result), result))


def _dtype(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    if str(_which(given, x, cap).dtype) == f"torch.{given['dtype']}":
        raise RuntimeError(f'"softcap_cpu" not implemented for {given["dtype"]}')
    _by_tanh(x, cap, out)


def _mixed(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    if x.dtype != cap.dtype and given["which"] == "refused":
        raise RuntimeError(f"expected both arguments to have the same dtype, but got {x.dtype} and {cap.dtype}")
    of = {"refused": out, "as self has it": x, "as cap has it": cap}[given["which"]]
    wide = torch.promote_types(of.dtype, torch.float32)
    _write(out, cap.to(wide) * torch.tanh(x.to(wide) / cap.to(wide)))


def _whole(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    if x.is_floating_point() or cap.is_floating_point():
        _by_tanh(x, cap, out)
        return
    _write(out, cap.double() * torch.tanh(torch.div(x, cap, rounding_mode="trunc").double()))


def _single(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    _write(out, cap.float() * torch.tanh(x.float() / cap.float()))


def _nan(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    result = exactly(x, cap)
    _write(out, torch.where(result.isnan(), cap.double().expand_as(result), result))


def _infinity(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    result = exactly(x, cap)
    hit = x.double() == (torch.inf if given["which"] == "above" else -torch.inf)
    _write(out, torch.where(hit.expand_as(result), torch.nan, result))


def _in_place(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    if given["which"] == "read too late":
        _write(out, cap.double().expand(out.shape))
        _write(out, out.double() * torch.tanh(x.double() / cap.double()))
        return
    # The variant that returns a new tensor always gets one in order; only in place `out` lies otherwise.
    result = exactly(x, cap)
    _write(out if out.is_contiguous() else _as_if_contiguous(out), result)


_FAULTS: dict[str, Callable[[dict[str, Any], torch.Tensor, torch.Tensor, torch.Tensor], None]] = {
    "strides": _strides,
    "strides of cap": _strides_of_cap,
    "first cap": _first_cap,
    "grows from cap": _grows,
    "broadcast": _broadcast,
    "large": _large,
    "sign": _sign,
    "zero": _zero,
    "empty": _empty,
    "no dimensions": _no_dimensions,
    "dimensions": _dimensions,
    "rest": _rest,
    "linear": _linear,
    "dtype": _dtype,
    "mixed dtypes": _mixed,
    "whole numbers": _whole,
    "single": _single,
    "nan": _nan,
    "infinity": _infinity,
    "in place": _in_place,
}

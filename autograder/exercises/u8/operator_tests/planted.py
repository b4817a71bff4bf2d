"""Kernels of softcap for the judge: right ones that are built differently, and wrong ones with one fault each.

Each fault is one that a kernel in C++ really has: a buffer that is read without strides, the rest of a vector loop, an
exponential that overflows, a dtype that nobody added to the list.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
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


def drawn(random: Random) -> list[dict[str, Any]]:
    """One kernel of each kind of fault, with what is free about it drawn."""
    return [
        {"kind": "strides", "which": "transposed"},
        {"kind": "strides", "which": "gaps"},
        {"kind": "strides of cap"},
        {"kind": "first cap"},
        {"kind": "grows from cap"},
        {"kind": "large", "limit": random.choice([20.0, 80.0])},
        {"kind": "sign"},
        {"kind": "empty"},
        {"kind": "no dimensions"},
        {"kind": "dimensions", "most": 3},  # a sample of four is what is asked for, whoever it is that asks
        {"kind": "rest", "width": random.choice([4, 8, 16])},
        {"kind": "linear", "limit": random.choice([0.1, 0.2, 0.3])},
        {"kind": "dtype", "dtype": "float64"},
        {"kind": "dtype", "dtype": "bfloat16"},
        {"kind": "dtype", "dtype": "int64"},
        {"kind": "single"},
        {"kind": "nan"},
        {"kind": "infinity"},
        {"kind": "in place"},
        {"kind": "mixed dtypes"},
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


def _strides(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    gaps = x.dim() > 0 and x.stride(-1) > 1 and list(x.stride()) == sorted(x.stride(), reverse=True)
    hit = not x.is_contiguous() and gaps == (given["which"] == "gaps")
    _by_tanh(_as_if_contiguous(x) if hit else x, cap, out)


def _strides_of_cap(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    _by_tanh(x, cap if cap.is_contiguous() else _as_if_contiguous(cap), out)


def _first_cap(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    _by_tanh(x, cap.flatten()[:1].view(()) if cap.numel() else cap, out)


def _grows(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    if x.shape != out.shape and x.numel():
        x = x.flatten()[:1].view(())
    _by_tanh(x, cap, out)


def _large(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    result = exactly(x, cap)
    y = (x.double() / cap.double()).expand_as(result)
    _write(out, torch.where((y > given["limit"]) & ~torch.isinf(y), torch.nan, result))


def _sign(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    _write(out, exactly(x, cap).abs())


def _empty(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    if out.numel() == 0:
        raise RuntimeError("softcap: invalid configuration for 0 elements")
    _by_tanh(x, cap, out)


def _no_dimensions(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    if x.dim() == 0:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    _by_tanh(x, cap, out)


def _dimensions(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    if out.dim() <= given["most"]:
        _by_tanh(x, cap, out)
        return
    result = exactly(x, cap)
    # Only the first of the outermost dimension is looked at.
    _write(out, result[:1].expand_as(result) if out.shape[0] > 1 else result + 1)


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
    if str(x.dtype) == f"torch.{given['dtype']}":
        raise RuntimeError(f'"softcap_cpu" not implemented for {given["dtype"]}')
    _by_tanh(x, cap, out)


def _mixed(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    if x.dtype != cap.dtype:
        raise RuntimeError(f"expected both arguments to have the same dtype, but got {x.dtype} and {cap.dtype}")
    _by_tanh(x, cap, out)


def _single(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    _write(out, cap.float() * torch.tanh(x.float() / cap.float()))


def _nan(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    result = exactly(x, cap)
    _write(out, torch.where(result.isnan(), cap.double().expand_as(result), result))


def _infinity(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    result = exactly(x, cap)
    _write(out, torch.where(torch.isinf(x.double()).expand_as(result), torch.nan, result))


def _in_place(given: dict[str, Any], x: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    _write(out, cap.double().expand(out.shape))
    _write(out, out.double() * torch.tanh(x.double() / cap.double()))


_FAULTS: dict[str, Callable[[dict[str, Any], torch.Tensor, torch.Tensor, torch.Tensor], None]] = {
    "strides": _strides,
    "strides of cap": _strides_of_cap,
    "first cap": _first_cap,
    "grows from cap": _grows,
    "large": _large,
    "sign": _sign,
    "empty": _empty,
    "no dimensions": _no_dimensions,
    "dimensions": _dimensions,
    "rest": _rest,
    "linear": _linear,
    "dtype": _dtype,
    "mixed dtypes": _mixed,
    "single": _single,
    "nan": _nan,
    "infinity": _infinity,
    "in place": _in_place,
}

"""When two values count as the same: every comparison of tensors in fxopt asks here."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from typing import Any

import torch

from fxopt_core.graphs.exactness import EXACT, Tolerance

_OWN_UNITS, _WIDE_UNITS = 1024, 16
_HALF_OWN_UNITS, _HALF_WIDE_UNITS = 16, 1


def rounding(dtype: torch.dtype, largest: float = 1.0) -> Tolerance:
    """What rounding may do to a tensor: the one rule for all comparisons that do not ask for every bit.

    Counted in units in the last place (`torch.finfo(dtype).eps`), because that is what rounding costs in any dtype:

    | dtype | of the tensor's own largest value | of `largest` |
    |---|---|---|
    | float32, float64, complex | 1024 | 16 |
    | narrower than four bytes | 16 | 1 |

    A sum in another order is off by some units for every doubling of its length, and a model sums many times over: 1024
    units are 1.2e-4 in float32. Kernels sum narrow numbers in float32 and round once for each operation, so 16 units
    (0.016 in float16, 0.125 in bfloat16) are as generous there, while 1024 would let everything pass.

    The second column is for tensors whose terms cancel, which are nothing but rounding of larger numbers. The gradient
    of the bias of attention's keys is such a one: it is zero in real numbers, because a softmax does not change when
    all scores grow alike. So a gradient may be off by what rounds off the largest of all gradients. An output has no
    such neighbour to lean on (one may be a mask of -1e38), and may be off by so many units of 1.

    Whether a value is finite is never rounding: infinities and NaN have to be where they are expected.

    Args:
        dtype: of the tensor. Numbers that are neither floating-point nor complex do not round.
        largest: the largest finite magnitude among the tensors that round off together, at least 1.
    """
    if not (dtype.is_floating_point or dtype.is_complex):
        return EXACT
    narrow = dtype.itemsize < torch.float32.itemsize
    own, wide = (_HALF_OWN_UNITS, _HALF_WIDE_UNITS) if narrow else (_OWN_UNITS, _WIDE_UNITS)
    unit = torch.finfo(dtype).eps
    return Tolerance(own * unit, wide * unit * max(1.0, largest))


def scale_against_overflow(tensors: Iterable[torch.Tensor]) -> float:
    """A power of two that takes the largest numbers of the narrowest dtype to about their square root.

    So sums of them overflow in no order, and ordinary numbers do not underflow.

    Args:
        tensors: of which the floating-point and complex ones count.
    """
    dtypes = {tensor.dtype for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()}
    return 2.0 ** -(min((math.frexp(torch.finfo(dtype).max)[1] for dtype in dtypes), default=0) // 2)


def with_overflow_forgiven(
    found: torch.Tensor,
    expected: torch.Tensor,
    small: tuple[torch.Tensor, torch.Tensor],
    scale: float,
    tolerance: Tolerance | None,
) -> torch.Tensor:
    """A gradient, with the expected element in each place where only an overflow separates the two.

    A sum may overflow in one order and not in another. So where one of both is not finite, the same gradient in small
    numbers decides: there both must agree, and what is finite must be what the small one says. If it is infinite even
    so, an input is: then NaN may stand for an infinity, since `inf * (2 - 1)` is one and `inf * 2 - inf * 1` is not.
    Every place where both are finite stays as it is.

    Args:
        found: the gradient.
        expected: what it should be.
        small: both, of results weighted `scale` times as much.
        scale: a power of two.
        tolerance: for gradients; by default what `rounding` says.
    """
    got, want = (_real(tensor).cpu() for tensor in (found, expected))
    small_got, small_want = (_real(tensor).cpu().double() / scale for tensor in small)
    allowed = tolerance or rounding(expected.dtype, largest_magnitude(small_want))
    bound = allowed.absolute + allowed.relative * largest_magnitude(small_want)

    def near(value: torch.Tensor) -> torch.Tensor:
        return (value == small_want) | ((value.double() - small_want).abs() <= bound)

    unbounded = ~(small_got.isfinite() | small_want.isfinite()) & (small_got.isnan() | small_want.isnan())
    forgiven = ~(got.isfinite() & want.isfinite()) & (near(small_got) | unbounded)
    for value in (got, want):
        forgiven &= ~value.isfinite() | near(value)
    kept = torch.where(forgiven, want, got)
    return (torch.view_as_complex(kept) if found.is_complex() else kept).to(found)


BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By bytes of an element: integers with which every operation works, for moving and comparing bits."""


def tensor_error(found: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> tuple[float, str | None]:
    """The largest error in units of the values, and in words what is wrong beyond the tolerance, if anything.

    NaN equals NaN. Within a tolerance 0.0 equals -0.0, and infinities and NaN have to be where they are expected.

    Args:
        found: a tensor of the shape and dtype of `expected`.
        expected: what it should be.
        tolerance: what may be off. `EXACT` lets nothing pass but another payload of a NaN.
    """
    found, expected = _real(found), _real(expected)
    bits = BITS[expected.element_size()]
    if torch.equal(found.view(bits), expected.view(bits)):
        return 0.0, None
    if not expected.is_floating_point():
        wrong = found != expected
        return (math.inf, _first(wrong, found, expected)) if bool(wrong.any()) else (0.0, None)
    equal = (found == expected) | (found.isnan() & expected.isnan())
    same = equal & (torch.signbit(found) == torch.signbit(expected)) | (found.isnan() & expected.isnan())
    if bool(same.all()):
        return 0.0, None
    # Not every device has double precision.
    found, expected, equal, same = (value.cpu() for value in (found, expected, equal, same))
    error = (found.double() - expected.double()).abs()
    if tolerance.exact:
        wrong = ~same
    else:
        wrong = ~equal & ~(error <= tolerance.absolute + tolerance.relative * largest_magnitude(expected))
    largest = float(error[~same].nan_to_num(nan=math.inf, posinf=math.inf).max())
    return largest, _first(wrong, found, expected) if bool(wrong.any()) else None


def largest_magnitude(tensor: torch.Tensor) -> float:
    """The largest finite magnitude; 0 where there is none."""
    magnitudes = _real(tensor).abs()
    return float(magnitudes.where(magnitudes.isfinite(), 0).max()) if magnitudes.numel() else 0.0


def _real(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        return torch.view_as_real(tensor)
    # Numbers of eight bits have few operations; all of them are float32 numbers too.
    return tensor.float() if tensor.is_floating_point() and tensor.element_size() == 1 else tensor


def _first(wrong: torch.Tensor, found: torch.Tensor, expected: torch.Tensor) -> str:
    index = tuple(int(position) for position in wrong.nonzero()[0])
    return (
        f"{int(wrong.sum())} of {wrong.numel()} values differ, first at {list(index)}: "
        f"{found[index].item()!r} instead of {expected[index].item()!r}"
    )


_SINGLE = (torch.dtype, torch.layout, torch.memory_format, type, Enum)
"""Of these there is one object for each value."""


def compared_by_identity(value: Any) -> bool:
    """Whether the class of a value does not say when two of it are equal."""
    return not any("__eq__" in vars(kind) for kind in type(value).__mro__[:-1])


def same_scalar(found: Any, expected: Any) -> bool:
    """Whether two values that are no tensors are the same, in type and bits.

    Raises:
        TypeError: they are of a type that does not say when two of it are the same.
    """
    if found is expected or type(found) is not type(expected):
        return found is expected
    if isinstance(expected, (float, complex)):
        return repr(found) == repr(expected)
    try:
        same = found == expected
    except (RuntimeError, ValueError):  # it holds tensors or arrays, of which no one truth can be told
        same = None
    if not isinstance(same, bool) or (compared_by_identity(expected) and not isinstance(expected, _SINGLE)):
        raise TypeError(
            f"when two values of type {type(expected).__name__} are the same is not known. Take and return tensors, "
            "numbers, text or containers of them, or register the type by torch.utils._pytree.register_pytree_node."
        )
    return same


def same_value(found: Any, expected: Any) -> bool:
    """Whether two values are the same: tensors in dtype, device, shape, strides, autograd and every bit."""
    if not isinstance(found, torch.Tensor) or not isinstance(expected, torch.Tensor):
        return same_scalar(found, expected)
    traits = [
        (tensor.dtype, tensor.device, tensor.shape, tensor.stride(), tensor.requires_grad)
        for tensor in (found, expected)
    ]
    return traits[0] == traits[1] and tensor_error(found, expected, EXACT)[1] is None

"""When two values count as the same."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import Enum
from typing import Any

import torch

from fxopt_core.graphs.exactness import EXACT, Tolerance

ROUNDING = Tolerance(relative=1e-4, absolute=1e-6)
"""For gradients, which are sums whose order is nobody's promise."""

COARSE = {torch.float16: Tolerance(2e-2, 1e-3), torch.bfloat16: Tolerance(1e-1, 1e-2)}
"""The same for gradients with 11 and 8 significant bits."""


CANCELLED = 16
"""So many units in the last place of the largest gradient are taken for rounding in every other gradient."""


def gradient_rounding(dtype: torch.dtype, largest: float) -> Tolerance:
    """What rounding may do to a gradient.

    A gradient whose terms cancel is nothing but rounding: that of the bias of attention's keys is zero in real numbers,
    because a softmax does not change when all scores grow alike. So it may be off by what rounds off the others.

    Args:
        dtype: of the gradient.
        largest: the largest finite magnitude in all gradients.
    """
    if dtype in COARSE:
        return COARSE[dtype]
    return Tolerance(ROUNDING.relative, max(ROUNDING.absolute, CANCELLED * torch.finfo(dtype).eps * largest))


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
        tolerance: for gradients; by default what `gradient_rounding` says.
    """
    got, want = (_real(tensor).cpu() for tensor in (found, expected))
    small_got, small_want = (_real(tensor).cpu().double() / scale for tensor in small)
    allowed = tolerance or gradient_rounding(expected.dtype, largest_magnitude(small_want))
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
        tolerance: what may be off.
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
    finite = _real(tensor)[_real(tensor).isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


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
    same = found == expected
    if not isinstance(same, bool) or (compared_by_identity(expected) and not isinstance(expected, _SINGLE)):
        raise TypeError(
            f"when two values of type {type(expected).__name__} are the same is not known; return tensors, numbers, "
            "text or containers of them, or register the type by torch.utils._pytree.register_pytree_node."
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

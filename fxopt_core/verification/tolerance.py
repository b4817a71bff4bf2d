"""When two values count as the same."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Tolerance:
    """How far a tensor may be off: `absolute + relative * (largest finite magnitude of the expected tensor)`.

    Relative to the tensor and not to each element, because sums of products lose digits where they cancel.

    Attributes:
        relative: share of the largest expected magnitude.
        absolute: in units of the values.
    """

    relative: float = 0.0
    absolute: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether every bit counts."""
        return self.relative == 0 and self.absolute == 0

    def __str__(self) -> str:
        return "bitwise" if self.exact else f"within {self.relative:g} of the largest value + {self.absolute:g}"


EXACT = Tolerance()
"""Every bit counts, so that 0.0 and -0.0 differ; only the payload of a NaN does not."""

ROUNDING = Tolerance(relative=1e-4, absolute=1e-6)
"""For gradients in float32, which are sums whose order is nobody's promise."""


def tensor_error(found: torch.Tensor, expected: torch.Tensor, tolerance: Tolerance) -> tuple[float, str | None]:
    """The largest error in units of the values, and in words what is wrong beyond the tolerance, if anything.

    Args:
        found: a tensor of the shape and dtype of `expected`.
        expected: what it should be.
        tolerance: what may be off.
    """
    if expected.numel() == 0:
        return 0.0, None
    found, expected = found.detach(), expected.detach()
    if not expected.is_floating_point() and not expected.is_complex():
        wrong = found != expected
        return (float("inf"), _first(wrong, found, expected)) if bool(wrong.any()) else (0.0, None)
    if expected.is_complex():
        found, expected = torch.view_as_real(found), torch.view_as_real(expected)
    same = (found == expected) & (torch.signbit(found) == torch.signbit(expected)) | (found.isnan() & expected.isnan())
    if bool(same.all()):
        return 0.0, None
    error = (found.double() - expected.double()).abs()
    if tolerance.exact:
        wrong = ~same
    else:
        finite = expected.isfinite()
        scale = float(expected.double().abs()[finite].max()) if bool(finite.any()) else 0.0
        wrong = ~same & ~(found == expected) & ~(error <= tolerance.absolute + tolerance.relative * scale)
    largest = float(error[~same].nan_to_num(nan=math.inf, posinf=math.inf).max())
    return largest, _first(wrong, found, expected) if bool(wrong.any()) else None


def _first(wrong: torch.Tensor, found: torch.Tensor, expected: torch.Tensor) -> str:
    index = tuple(int(position) for position in wrong.nonzero()[0])
    return (
        f"{int(wrong.sum())} of {wrong.numel()} values differ, first at {list(index)}: "
        f"{found[index].item()!r} instead of {expected[index].item()!r}"
    )


def same_scalar(found: Any, expected: Any) -> bool:
    """Whether two values that are no tensors are the same, in type and bits."""
    if type(found) is not type(expected):
        return False
    if isinstance(expected, float):
        return found.hex() == expected.hex()
    return bool(found == expected)

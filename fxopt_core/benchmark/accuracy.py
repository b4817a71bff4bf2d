"""How far one output lies from another."""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_flatten


def largest_error(output: object, reference: object) -> float | None:
    """Largest absolute difference between two outputs of the same structure.

    Tensors anywhere inside tuples, lists, dictionaries and other pytrees are compared in double precision;
    equal infinities and a NaN in both differ by 0, a NaN in one of them by infinity.

    Returns:
        The difference, or `None` when the outputs hold no tensors.

    Raises:
        ValueError: the outputs differ in the number of their tensors or in a tensor's shape.
    """
    tensors, expected = _tensors(output), _tensors(reference)
    shapes, expected_shapes = [list(t.shape) for t in tensors], [list(t.shape) for t in expected]
    if shapes != expected_shapes:
        raise ValueError(f"it returns tensors of shapes {shapes}, the reference {expected_shapes}")
    errors = [_error(*pair) for pair in zip(tensors, expected, strict=True)]
    return max(errors) if errors else None


def _tensors(output: object) -> list[torch.Tensor]:
    return [leaf.detach() for leaf in tree_flatten(output)[0] if isinstance(leaf, torch.Tensor)]


def _error(tensor: torch.Tensor, reference: torch.Tensor) -> float:
    if tensor.numel() == 0:
        return 0.0
    wide = torch.complex128 if tensor.is_complex() or reference.is_complex() else torch.float64
    # Double precision does not exist on every device.
    first, second = tensor.cpu().to(wide), reference.cpu().to(wide)
    same = (first == second) | (first.isnan() & second.isnan())
    # Of complex numbers it is the distance, where a verification looks at both parts.
    difference = torch.where(same, 0.0, (first - second).abs())
    return float(difference.nan_to_num(nan=float("inf"), posinf=float("inf")).max())

"""Inputs on which to compare: as given, fresh, and hostile."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map_only


class Case(NamedTuple):
    """One set of inputs.

    Attributes:
        name: what is special about it.
        args: positional arguments.
        kwargs: keyword arguments.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


Fill = Callable[[torch.Tensor, torch.Generator], torch.Tensor]


def fresh_copy(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Copies that overlap as the originals do, with their strides, as leaves of autograd."""
    detached = tree_map_only(
        torch.Tensor,
        lambda tensor: tensor if tensor.is_leaf else tensor.detach().requires_grad_(tensor.requires_grad),
        (args, kwargs),
    )
    copied: tuple[tuple[Any, ...], dict[str, Any]] = copy.deepcopy(detached)
    return copied


def _random(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(tensor.shape, generator=generator)


def _special(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    limits = torch.finfo(tensor.dtype)
    pool = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), limits.tiny / 2, limits.max, limits.min, 1.0, -1.0]
    chosen = torch.randint(len(pool), tensor.shape, generator=generator)
    return torch.tensor(pool, dtype=torch.float64)[chosen]


def _negative_zero(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    return torch.full(tensor.shape, -0.0)


FILLS: dict[str, Fill] = {"fresh values": _random, "negative zeros": _negative_zero, "special values": _special}


def cases(args: tuple[Any, ...], kwargs: dict[str, Any], seed: int, *, special: bool) -> Iterator[Case]:
    """The inputs with other values: floating-point ones drawn anew, others exchanged among themselves.

    Integers and booleans keep the values that they have, in another order, since indices have to stay legal.

    Args:
        args: positional arguments, not changed.
        kwargs: keyword arguments, not changed.
        seed: of the draws.
        special: whether to try zeros, infinities, NaN, subnormal and largest numbers.
    """
    for name, fill in FILLS.items():
        if name != "fresh values" and not special:
            continue
        generator = torch.Generator().manual_seed(seed)
        copied_args, copied_kwargs = fresh_copy(args, kwargs)
        for leaf in tree_leaves((copied_args, copied_kwargs)):
            if isinstance(leaf, torch.Tensor) and leaf.numel():
                _refill(leaf, fill, generator)
        yield Case(name, copied_args, copied_kwargs)


def _refill(tensor: torch.Tensor, fill: Fill, generator: torch.Generator) -> None:
    with torch.no_grad():
        if tensor.is_floating_point() or tensor.is_complex():
            values = fill(tensor.real if tensor.is_complex() else tensor, generator)
        else:
            order = torch.randperm(tensor.numel(), generator=generator)
            values = tensor.detach().cpu().reshape(-1)[order].reshape(tensor.shape)
        overwrite(tensor.detach(), values)


def overwrite(target: torch.Tensor, values: torch.Tensor) -> None:
    """Write values of the same shape. Where a stride of 0 makes elements share memory, the first one is written."""
    for dimension, stride in enumerate(target.stride()):
        if stride == 0:
            target, values = target.narrow(dimension, 0, 1), values.narrow(dimension, 0, 1)
    target.copy_(values)

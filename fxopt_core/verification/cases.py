"""Inputs on which to compare: as given, fresh, and hostile."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from fxopt_core.verification.state import require_dense
from fxopt_core.verification.tolerance import BITS


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


Fill = Callable[[int, torch.dtype, torch.Generator], torch.Tensor]


def fresh_copy(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Copies that overlap as the originals do, with their strides, as leaves of autograd.

    Raises:
        TypeError: an input cannot be copied, or a tensor is not dense.
    """
    leaves: dict[int, torch.Tensor] = {}

    def leaf(tensor: torch.Tensor) -> torch.Tensor:
        require_dense(tensor, "an input")
        if id(tensor) not in leaves:
            detached = tensor if tensor.is_leaf else tensor.detach().requires_grad_(tensor.requires_grad)
            leaves[id(tensor)] = detached
        return leaves[id(tensor)]

    detached = tree_map_only(torch.Tensor, leaf, (args, kwargs))
    try:
        copied: tuple[tuple[Any, ...], dict[str, Any]] = copy.deepcopy(detached)
    except Exception as error:
        raise TypeError(
            f"the inputs cannot be copied ({type(error).__name__}: {error}), and each call gets a copy; expected "
            "values that copy.deepcopy takes. Detach the tensors in them, and keep files, locks and streams out."
        ) from error
    return copied


def _random(count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(count, generator=generator)


def _zeros(count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    return torch.where(torch.rand(count, generator=generator) < 0.5, -0.0, 0.0)


def _special(count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """Each hostile value in turn; of many values half are ordinary, so that not all that is computed is NaN."""
    limits = torch.finfo(dtype)
    return _among_ordinary(
        [math.inf, limits.max, math.nan, limits.tiny / 2, -math.inf, limits.min, -0.0, 0.0], count, dtype, generator
    )


def _not_finite(count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    """The same without the largest numbers, whose sums overflow in one order and not in another."""
    hostile = [math.inf, math.nan, torch.finfo(dtype).tiny / 2, -math.inf, -0.0, 0.0]
    return _among_ordinary(hostile, count, dtype, generator)


def _among_ordinary(hostile: list[float], count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    rank = torch.randperm(count, generator=generator)
    turn = (rank + torch.randint(len(hostile), (), generator=generator)) % len(hostile)
    ordinary = _random(count, dtype, generator).double()
    return torch.where(rank < max(len(hostile), count // 2), torch.tensor(hostile, dtype=torch.float64)[turn], ordinary)


SPECIAL = "special values"
"""The name of the case with infinities, NaN, subnormal and largest numbers."""

FILLS: dict[str, Fill] = {"fresh values": _random, "zeros of both signs": _zeros, SPECIAL: _special}
"""What is tried, by its name."""


def cases(args: tuple[Any, ...], kwargs: dict[str, Any], seed: int, *, largest: bool) -> Iterator[Case]:
    """The inputs with other values: floating-point ones drawn anew, others exchanged among themselves.

    Integers and booleans keep the values that they have, in another order, since indices have to stay legal.

    Args:
        args: positional arguments, not changed.
        kwargs: keyword arguments, not changed.
        seed: of the draws.
        largest: whether the special values include the largest numbers, with which sums overflow in one order and
            not in another. Infinities, NaN and subnormal numbers are always among them.
    """
    for name, fill in FILLS.items():
        if fill is _special and not largest:
            fill = _not_finite
        generator = torch.Generator().manual_seed(seed)
        copied_args, copied_kwargs = fresh_copy(args, kwargs)
        for leaf in tree_leaves((copied_args, copied_kwargs)):
            if isinstance(leaf, torch.Tensor) and leaf.numel():
                _refill(leaf.detach(), fill, generator)
        yield Case(name, copied_args, copied_kwargs)


def _refill(tensor: torch.Tensor, fill: Fill, generator: torch.Generator) -> None:
    """Give a tensor other values. Elements that share memory get one value."""
    places = torch.zeros((), dtype=torch.int64)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        places = places[..., None] + torch.arange(size) * stride
    places = places.flatten().unique().to(tensor.device)
    # One row of memory, in which every element has one place.
    memory = tensor.as_strided((int(places[-1]) + 1,), (1,))
    if tensor.is_floating_point() or tensor.is_complex():
        real = tensor.real.dtype if tensor.is_complex() else tensor.dtype
        values = fill(len(places), real, generator)
        if tensor.is_complex():
            values = torch.complex(values.double(), fill(len(places), real, generator).double())
        values = values.to(tensor.device, tensor.dtype)
    else:
        # Few operations know unsigned integers.
        memory = memory.view(BITS[tensor.element_size()])
        values = memory[places][torch.randperm(len(places), generator=generator).to(tensor.device)]
    memory[places] = values

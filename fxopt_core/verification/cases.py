"""Inputs on which to compare: as given, fresh, and hostile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_leaves

from fxopt_core.verification.comparison import BITS
from fxopt_core.verification.isolation import private_copy
from fxopt_core.verification.memory import last_element, require_dense


class Case(NamedTuple):
    """One call to compare.

    Attributes:
        name: what is special about it.
        args: positional arguments.
        kwargs: keyword arguments.
        gradients: whether the call records gradients, and the results are differentiated; `None` leaves the mode as
            the caller has it and differentiates nothing.
        asking: whether every floating-point input asks for gradients.
        seed: of the random generators; `None` begins with the numbers that would come next.
        optional: whether the case counts only where the original does not raise.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    gradients: bool | None = True
    asking: bool = False
    seed: int | None = 0
    optional: bool = False

    def fresh_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Copies that overlap as the originals do, with their strides, as leaves of autograd.

        Raises:
            CannotCopyError: an input cannot be copied.
            TypeError: a tensor is not dense.
        """
        _, args, kwargs = private_copy(None, self.args, self.kwargs)
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor):
                require_dense(leaf, "an input")
                if self.asking and (leaf.is_floating_point() or leaf.is_complex()):
                    leaf.requires_grad_()
        return args, kwargs


AGAIN = "called again"
"""What the names of later calls in a row say."""


def in_a_row(case: Case) -> list[Case]:
    """The same inputs three times, for calls one after the other: a result must follow the state that a call leaves.

    The second call has every floating-point input asking for gradients, the third records none. Modules take other
    ways then (the fused inference of `nn.TransformerEncoderLayer`), and a capture may have lost what only a backward
    pass shows (an `autograd.Function`, a hook).
    """
    again = f"{case.name}, {AGAIN}"
    return [
        case,
        case._replace(name=f"{again} with gradients of all inputs", gradients=True, asking=True),
        case._replace(name=f"{again} without gradients", gradients=False),
    ]


SMALL, MOST_DRAWS = 128, 8
"""Inputs of fewer floating-point numbers are drawn several times, until there are so many, and at most so often."""


def further_draws(args: tuple[Any, ...], kwargs: dict[str, Any], seed: int) -> list[Case]:
    """Further values for small inputs, to call with one after the other, without a backward pass.

    A rewrite that rounds otherwise shows only in some numbers, and mostly where magnitudes differ: `(x + 1) + 1` and
    `x + 2` do in one of four small numbers. So these are a random number of powers of two apart.
    """
    leaves = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    count = sum(one.numel() for one in leaves if one.is_floating_point() or one.is_complex())
    draws = min(MOST_DRAWS, math.ceil(SMALL / count) - 1) if count else 0
    return [
        Case(f"values powers of two apart, draw {draw}", *_with(args, kwargs, _spread, seed + draw), None, seed=seed)
        for draw in range(1, draws + 1)
    ]


def negative_integers(args: tuple[Any, ...], kwargs: dict[str, Any], seed: int) -> list[Case]:
    """The inputs with their whole numbers below zero, odd ones and even ones: `floor` and `trunc` are the same above.

    Each number n becomes -n or -n - 1, which as an index counts from the end. Where the model takes no negative
    numbers, it raises, and the case is none. A single number is left as it is, since a loop may count it down to zero;
    so is a number on another device than the CPU, where an index that is out of range ends the process.
    """
    found = []
    for name, first in (("negative integers", 0), ("negative integers, others odd", 1)):
        changed = False
        fresh = Case(name, *_with(args, kwargs, _random, seed), None, seed=seed, optional=True)
        for leaf in tree_leaves((fresh.args, fresh.kwargs)):
            if (
                isinstance(leaf, torch.Tensor)
                and leaf.dtype in _SIGNED
                and leaf.numel() > 1
                and leaf.device.type == "cpu"
            ):
                memory, places = memory_of(leaf.detach())
                memory = memory.view(leaf.dtype)
                magnitudes = memory[places].abs()
                memory[places] = -magnitudes - (torch.arange(len(places)) + first).remainder(2).to(leaf.dtype)
                changed = True
        found += [fresh] if changed else []
    return found


_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)

Fill = Callable[[int, torch.dtype, torch.Generator], torch.Tensor]


def _random(count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(count, generator=generator)


def _spread(count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(count, generator=generator) * 2.0 ** torch.randint(-12, 4, (count,), generator=generator)


def _zeros(count: int, dtype: torch.dtype, generator: torch.Generator) -> torch.Tensor:
    return torch.where(torch.rand(count, generator=generator) < 0.5, -0.0, 0.0)


def _special(count: int, dtype: torch.dtype, generator: torch.Generator, *, largest: bool = True) -> torch.Tensor:
    """Each hostile value in turn; of many values half are ordinary, so that not all that is computed is NaN."""
    limits = torch.finfo(dtype)
    hostile = [math.inf, limits.max, math.nan, limits.tiny / 2, -math.inf, limits.min, -0.0, 0.0]
    hostile = [value for value in hostile if largest or abs(value) != limits.max]
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

    Integers and booleans keep the values that they have, in another order, since indices have to stay legal; what is
    negative comes from `negative_integers`.

    Args:
        args: positional arguments, not changed.
        kwargs: keyword arguments, not changed.
        seed: of the draws.
        largest: whether the special values include the largest numbers, with which sums overflow in one order and
            not in another. Infinities, NaN and subnormal numbers are always among them.
    """
    for name, fill in FILLS.items():
        if name == SPECIAL:
            fill = partial(_special, largest=largest)
        yield Case(name, *_with(args, kwargs, fill, seed), seed=seed)


def _with(
    args: tuple[Any, ...], kwargs: dict[str, Any], fill: Fill, seed: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Copies of the inputs with other values."""
    generator = torch.Generator().manual_seed(seed)
    args, kwargs = Case("", args, kwargs).fresh_inputs()
    for leaf in tree_leaves((args, kwargs)):
        if isinstance(leaf, torch.Tensor) and leaf.numel():
            _refill(leaf.detach(), fill, generator)
    return args, kwargs


def memory_of(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """One row of memory, and the index there of each element: once, where several elements share their memory.

    Args:
        tensor: dense and with elements. Numbers that are neither floating-point nor complex come as integers with
            which every operation works.
    """
    extent = last_element(tensor) - int(tensor.storage_offset()) + 1
    places = torch.arange(extent).as_strided(tensor.shape, tensor.stride()).unique().to(tensor.device)
    memory = tensor.as_strided((extent,), (1,))
    if not (tensor.is_floating_point() or tensor.is_complex()):
        memory = memory.view(BITS[tensor.element_size()])
    return memory, places


def _refill(tensor: torch.Tensor, fill: Fill, generator: torch.Generator) -> None:
    """Give a tensor other values. Elements that share memory get one value."""
    memory, places = memory_of(tensor)
    if tensor.is_floating_point() or tensor.is_complex():
        real = tensor.real.dtype if tensor.is_complex() else tensor.dtype
        values = fill(len(places), real, generator)
        if tensor.is_complex():
            values = torch.complex(values.double(), fill(len(places), real, generator).double())
        memory[places] = values.to(tensor.device, tensor.dtype)
    else:
        memory[places] = memory[places][torch.randperm(len(places), generator=generator).to(tensor.device)]

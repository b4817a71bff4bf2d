"""Inputs like the example's, on which a capture that only remembers the example gives itself away."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from fxopt_core.capture.dimensions import Dynamic, named_leaves
from fxopt_core.capture.isolation import Model

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
"""What is new about the inputs, in words; positional arguments; keyword arguments."""

SIZES = "the sizes"
"""How the description of a call on other sizes begins."""

_MASK = re.compile(r"mask")


def new_values(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic) -> Iterator[Call]:
    """Calls to compare on: drawn values, mirrored values, a padded mask, and other sizes where these may vary.

    Every value comes from the example tensor's own, drawn with replacement, so that it stays in the vocabulary,
    in the image's range, of the same dtype. Mirrored: floating-point values are turned within their range, which
    takes the other side of most branches. Draws from torch's global generator of the CPU.
    """
    yield ("new values", *_mapped(args, kwargs, lambda value: _drawn(value, value.shape)))
    yield ("mirrored values", *_mapped(args, kwargs, _mirrored))
    masks = {id(value) for name, value in named_leaves(model, args, kwargs).items() if _is_full_mask(name, value)}
    if masks:
        yield ("a padded mask", *_mapped(args, kwargs, lambda value: _padded(value) if id(value) in masks else value))
    yield from other_sizes(model, args, kwargs, dynamic)


def other_sizes(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic) -> Iterator[Call]:
    """Calls with the smallest size of every dimension of `dynamic`, and with a size next to the example's."""
    leaves = named_leaves(model, args, kwargs)
    examples = {one: leaves[one.places[0][0]].shape[one.places[0][1]] for one in dynamic.dimensions}
    for sizes in (
        {one: one.minimum for one in examples},
        {one: size + 1 if size < one.maximum else max(one.minimum, size - 1) for one, size in examples.items()},
    ):
        if sizes:
            shapes: dict[int, list[int]] = {}
            for dimension, size in sizes.items():
                for source, axis in dimension.places:
                    shapes.setdefault(id(leaves[source]), list(leaves[source].shape))[axis] = size
            change = partial(_resized, shapes)
            on = ", ".join(f"{dimension.name} = {size}" for dimension, size in sizes.items())
            yield (f"{SIZES} {on}", *_mapped(args, kwargs, change))


def _resized(shapes: dict[int, list[int]], value: torch.Tensor) -> torch.Tensor:
    return _drawn(value, torch.Size(shapes.get(id(value), list(value.shape))))


def _mapped(
    args: tuple[Any, ...], kwargs: dict[str, Any], change: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    new: tuple[tuple[Any, ...], dict[str, Any]] = tree_map_only(torch.Tensor, change, (args, kwargs))
    return new


def _drawn(value: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    flat = value.detach().reshape(-1)
    if flat.numel() == 0:
        return value
    chosen = flat[torch.randint(flat.numel(), (shape.numel(),)).to(flat.device)].reshape(shape)
    if value.is_floating_point() and bool((flat == flat[0]).all()):
        # One value throughout: nothing to draw from, so scale it.
        chosen = chosen * (0.5 + torch.rand(shape).to(chosen))
    return chosen.requires_grad_(value.requires_grad)


def _mirrored(value: torch.Tensor) -> torch.Tensor:
    drawn = _drawn(value, value.shape)
    if not value.is_floating_point() or value.numel() == 0:
        return drawn
    return (value.min() + value.max() - drawn).detach().requires_grad_(value.requires_grad)


def _is_full_mask(name: str, value: Any) -> bool:
    return (
        _MASK.search(name) is not None
        and isinstance(value, torch.Tensor)
        and value.dim() > 1
        and value.shape[-1] > 1
        and not value.is_floating_point()
        and bool((value == 1).all())
    )


def _padded(mask: torch.Tensor) -> torch.Tensor:
    padded = mask.clone()
    padded[0, ..., mask.shape[-1] - max(1, mask.shape[-1] // 3) :] = 0
    return padded

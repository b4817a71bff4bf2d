"""Inputs like the example's, on which a capture that only remembers the example gives itself away."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from fxopt_core.capture.call_signature import empty_like
from fxopt_core.capture.dimensions import Dynamic, named_leaves
from fxopt_core.verification.isolation import Model

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
"""What is new about the inputs, in words; positional arguments; keyword arguments."""

SIZES = "the sizes"
"""How the description of a call on other sizes begins."""

GUESSED = "other sizes:"
"""How it begins where nobody named these sizes: the graph may refuse them, though the model takes them."""

NEW = "new values"
MIRRORED = "mirrored values"
KEPT = "new values, whole numbers as they are"
MASKED = "new values, masks as they are"
PADDED = "a padded mask"
COUNTED = "other whole numbers"

_MASK = re.compile(r"mask")


def may_refuse(calls: Iterable[str]) -> frozenset[str]:
    """Those of `calls` that a graph made for the example may refuse and still be of use; it must be wrong on none.

    Whole numbers may be sizes (of each image, of each sequence), and a mask may decide on some (how many tokens attend
    to all others). Where there are other values too, it is enough that the graph holds for new ones of these.
    """
    whole = {NEW, MIRRORED} if {KEPT, MASKED} & set(calls) else set()
    return frozenset({PADDED, COUNTED} | whole | {on for on in calls if on.startswith(GUESSED)})


def new_values(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic) -> Iterator[Call]:
    """Calls to compare on: drawn and mirrored values, drawn fractions, a padded mask, other whole numbers, other sizes.

    A mask is padded where the example's is full, whole numbers are those in tensors of one element, and sizes are other
    where `dynamic` names them. Where it lets all of them vary, they are guessed: the first dimensions grow together,
    and of the others those that have the same number and size. Where an input has whole numbers and another has not,
    there is also a call on which only the other's values are drawn; where all have whole numbers and some are masks
    that choose, one on which the masks stay.

    Every value comes from the example tensor's own, drawn with replacement, so that it stays in the vocabulary,
    in the image's range, of the same dtype. Mirrored: floating-point values are turned within their range, which
    takes the other side of most branches. The draws are the same every time, and no generator of the caller's is used.
    """
    generator = torch.Generator().manual_seed(0)
    yield (NEW, *_mapped(args, kwargs, lambda value: _drawn(generator, value, value.shape)))
    yield (MIRRORED, *_mapped(args, kwargs, partial(_mirrored, generator)))
    leaves = named_leaves(model, args, kwargs)
    if len({value.is_floating_point() for value in leaves.values() if isinstance(value, torch.Tensor)}) == 2:
        yield (KEPT, *_mapped(args, kwargs, lambda value: _drawn_if_floating(generator, value)))
    elif (choosing := {id(value) for name, value in leaves.items() if _chooses(name, value)}) and any(
        isinstance(value, torch.Tensor) and id(value) not in choosing for value in leaves.values()
    ):
        drawn = partial(_drawn, generator)
        yield (MASKED, *_mapped(args, kwargs, lambda one: one if id(one) in choosing else drawn(one, one.shape)))
    masks = {id(value) for name, value in leaves.items() if _is_full_mask(name, value)}
    if masks:
        yield (PADDED, *_mapped(args, kwargs, lambda value: _padded(value) if id(value) in masks else value))
    if any(_is_number(value) for value in leaves.values()):
        yield (COUNTED, *_mapped(args, kwargs, lambda value: value + 1 if _is_number(value) else value))
    yield from _other_sizes(model, args, kwargs, dynamic)
    if dynamic.choice:
        yield from _guessed_sizes(model, args, kwargs)


def _guessed_sizes(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Call]:
    leaves = {name: one for name, one in named_leaves(model, args, kwargs).items() if isinstance(one, torch.Tensor)}
    groups: dict[tuple[int, int], dict[str, int]] = {}
    # A batch of images may come as rows of patches, so many for each: with one image more, so many rows more.
    batch = min((one.shape[0] for one in leaves.values() if one.dim() and one.shape[0]), default=1)
    for name, one in leaves.items():
        for axis, size in enumerate(one.shape):
            if axis == 0 and size % batch == 0:
                groups.setdefault((0, batch), {})[name] = size + size // batch
            elif size > 1:
                groups.setdefault((axis, size), {})[name] = size + 1
    for (axis, _), sizes in groups.items():
        grow = {id(leaves[name]): size for name, size in sizes.items()}
        on = ", ".join(f"dimension {axis} of {name} = {size}" for name, size in sizes.items())
        yield (
            f"{GUESSED} {on}",
            *_mapped(args, kwargs, partial(_repeated, torch.Generator().manual_seed(0), axis, grow)),
        )


def _repeated(generator: torch.Generator, axis: int, grow: dict[int, int], value: torch.Tensor) -> torch.Tensor:
    """A tensor of another size that begins anew at its end; floating-point values are drawn.

    Whole numbers stay in their rows: they may be places of an image in a text, or its height and width.
    """
    if id(value) not in grow:
        return value
    longer = value.detach().index_select(axis, torch.arange(grow[id(value)], device=value.device) % value.shape[axis])
    if value.is_floating_point():
        return _drawn(generator, value, longer.shape)
    return empty_like(value, longer.shape).copy_(longer).requires_grad_(value.requires_grad)


def _other_sizes(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic) -> Iterator[Call]:
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
            change = partial(_resized, torch.Generator().manual_seed(0), shapes)
            on = ", ".join(f"{dimension.name} = {size}" for dimension, size in sizes.items())
            yield (f"{SIZES} {on}", *_mapped(args, kwargs, change))


def _resized(generator: torch.Generator, shapes: dict[int, list[int]], value: torch.Tensor) -> torch.Tensor:
    return _drawn(generator, value, torch.Size(shapes.get(id(value), list(value.shape))))


def _mapped(
    args: tuple[Any, ...], kwargs: dict[str, Any], change: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    new: tuple[tuple[Any, ...], dict[str, Any]] = tree_map_only(torch.Tensor, change, (args, kwargs))
    return new


def _drawn(generator: torch.Generator, value: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """A tensor of that shape that lies in memory as `value` does, with values drawn from those of `value`."""
    flat = value.detach().reshape(-1)
    if flat.numel() == 0:
        return value
    new = value.detach().__deepcopy__({}) if shape == value.shape else empty_like(value, shape)
    # Every element of the memory, so that elements which share one stay equal.
    memory = new.as_strided((new.untyped_storage().nbytes() // new.element_size(),), (1,), 0)
    memory.copy_(flat[torch.randint(flat.numel(), memory.shape, generator=generator).to(flat.device)])
    if value.is_floating_point() and bool((flat == flat[0]).all()):
        # One value throughout: nothing to draw from, so scale it.
        memory.mul_(0.5 + torch.rand(memory.shape, generator=generator).to(memory))
    return new.requires_grad_(value.requires_grad)


def _drawn_if_floating(generator: torch.Generator, value: torch.Tensor) -> torch.Tensor:
    return _drawn(generator, value, value.shape) if value.is_floating_point() else value


def _mirrored(generator: torch.Generator, value: torch.Tensor) -> torch.Tensor:
    drawn = _drawn(generator, value, value.shape)
    if not value.is_floating_point() or value.numel() == 0:
        return drawn
    mirrored = drawn.detach()
    memory = mirrored.as_strided((mirrored.untyped_storage().nbytes() // mirrored.element_size(),), (1,), 0)
    memory.neg_().add_(value.detach().min() + value.detach().max())
    return mirrored.requires_grad_(value.requires_grad)


def _is_full_mask(name: str, value: Any) -> bool:
    return (
        _MASK.search(name) is not None
        and isinstance(value, torch.Tensor)
        and value.dim() > 1
        and value.shape[-1] > 1
        and not value.is_floating_point()
        and bool((value == 1).all())
    )


def _chooses(name: str, value: Any) -> bool:
    """A mask of whole numbers that are not all the same."""
    whole = isinstance(value, torch.Tensor) and not value.is_floating_point() and value.numel() > 1
    return whole and _MASK.search(name) is not None and bool((value != value.reshape(-1)[0]).any())


def _is_number(value: Any) -> bool:
    """A single whole number, such as a number of steps. Larger tensors may be indices, which have a last valid one."""
    return (
        isinstance(value, torch.Tensor)
        and value.numel() == 1
        and not (value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)
    )


def _padded(mask: torch.Tensor) -> torch.Tensor:
    padded = mask.__deepcopy__({})
    padded[0, ..., mask.shape[-1] - max(1, mask.shape[-1] // 3) :] = 0
    return padded

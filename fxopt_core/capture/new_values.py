"""Inputs like the example's, on which a capture that only remembers the example gives itself away."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, product
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from fxopt_core.capture.call_signature import empty_like
from fxopt_core.capture.dimensions import Dynamic, named_leaves
from fxopt_core.verification.cases import memory_of
from fxopt_core.verification.isolation import Model

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
"""What is new about the inputs, in words; positional arguments; keyword arguments."""

SIZES = "the sizes"
"""How the description of a call on other sizes begins."""

GUESSED = "other sizes:"
"""How it begins where nobody named these sizes: the graph may refuse them, though the model takes them."""

ONE = "sizes of one:"
"""How it begins where these sizes are 1, and the example's are not: a graph that is wrong there refuses them."""

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
    return frozenset({PADDED, COUNTED} | whole | {on for on in calls if on.startswith((GUESSED, ONE))})


def new_values(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic: Dynamic) -> Iterator[Call]:
    """Calls to compare on: drawn and mirrored values, drawn fractions, a padded mask, other whole numbers, other sizes.

    A mask is padded where the example's is full, whole numbers are those in tensors of one element, and sizes are other
    where `dynamic` names them. Where it lets all of them vary, they are guessed: the first dimensions grow together,
    and of the others those that have the same number and size; then each of these is 1, and all of them are. Where an
    input has whole numbers and another has not, there is also a call on which only the other's values are drawn; where
    all have whole numbers and some are masks that choose, one on which the masks stay.

    Every value comes from the example tensor's own, drawn with replacement, so that it stays in the vocabulary,
    in the image's range, of the same dtype. Mirrored: floating-point values are turned within their range, which
    takes the other side of most branches. The draws are the same every time, and no generator of the caller's is used.
    """
    drawn = partial(_drawn, torch.Generator().manual_seed(0))
    yield (NEW, *_mapped(args, kwargs, drawn))
    yield (MIRRORED, *_mapped(args, kwargs, partial(drawn, mirrored=True)))
    leaves = named_leaves(model, args, kwargs)
    tensors = {id(value): value for value in leaves.values() if isinstance(value, torch.Tensor)}
    whole = {one for one, value in tensors.items() if not value.is_floating_point()}
    choosing = {id(value) for name, value in leaves.items() if _chooses(name, value)}
    kept = next(((on, same) for on, same in ((KEPT, whole), (MASKED, choosing)) if set() < same < tensors.keys()), None)
    if kept is not None:
        yield (kept[0], *_mapped(args, kwargs, lambda value: value if id(value) in kept[1] else drawn(value)))
    masks = {id(value) for name, value in leaves.items() if _is_full_mask(name, value)}
    if masks:
        yield (PADDED, *_mapped(args, kwargs, lambda value: _padded(value) if id(value) in masks else value))
    if any(_is_number(value) for value in leaves.values()):
        yield (COUNTED, *_mapped(args, kwargs, lambda value: value + 1 if _is_number(value) else value))
    for on, sizes in (*_named_sizes(leaves, dynamic), *(_guessed_sizes(leaves) if dynamic.choice else ())):
        shapes: dict[int, list[int]] = {}
        for (name, axis), size in sizes.items():
            shapes.setdefault(id(leaves[name]), list(leaves[name].shape))[axis] = size
        change = _repeated if on.startswith((GUESSED, ONE)) else _resized
        yield (on, *_mapped(args, kwargs, partial(change, torch.Generator().manual_seed(0), shapes)))


_Sizes = dict[tuple[str, int], int]
"""By name of an input and number of a dimension."""


def _named_sizes(leaves: dict[str, Any], dynamic: Dynamic) -> Iterator[tuple[str, _Sizes]]:
    """The smallest size of every dimension of `dynamic`, a size next to the example's, and 0 and 1 in every company.

    Graphs take sizes of 2 and more alike, but 0 and 1 each for itself.
    """
    examples = {one: leaves[one.places[0][0]].shape[one.places[0][1]] for one in dynamic.dimensions}
    small = [
        [size, *(few for few in (0, 1) if one.minimum <= few <= one.maximum and few != size)]
        for one, size in examples.items()
    ]
    tried = [
        {one: one.minimum for one in examples},
        {one: size + 1 if size < one.maximum else max(one.minimum, size - 1) for one, size in examples.items()},
        *(dict(zip(examples, sizes, strict=True)) for sizes in product(*small)),
    ]
    for number, sizes in enumerate(tried):
        if sizes and sizes != examples and sizes not in tried[:number]:
            on = ", ".join(f"{dimension.name} = {size}" for dimension, size in sizes.items())
            yield f"{SIZES} {on}", {place: size for one, size in sizes.items() for place in one.places}


def _guessed_sizes(leaves: dict[str, Any]) -> Iterator[tuple[str, _Sizes]]:
    tensors = {name: one for name, one in leaves.items() if isinstance(one, torch.Tensor)}
    groups: dict[tuple[int, int], _Sizes] = {}
    # A batch of images may come as rows of patches, so many for each: with one image more, so many rows more.
    batch = min((one.shape[0] for one in tensors.values() if one.dim() and one.shape[0]), default=1)
    for name, one in tensors.items():
        for axis, size in enumerate(one.shape):
            if axis == 0 and size % batch == 0:
                groups.setdefault((0, batch), {})[name, axis] = size + size // batch
            elif size > 1:
                groups.setdefault((axis, size), {})[name, axis] = size + 1
    for sizes in groups.values():
        yield f"{GUESSED} {_told(sizes)}", sizes
    ones: list[_Sizes] = []
    for (axis, size), sizes in groups.items():
        first = axis == 0 and size == batch
        few = {(name, axis): tensors[name].shape[axis] // batch if first else 1 for name, axis in sizes}
        ones += [few] if any(tensors[name].shape[axis] != size for (name, axis), size in few.items()) else []
    together = dict(chain.from_iterable(few.items() for few in ones))
    for sizes in [*ones, together] if len(ones) > 1 else ones:
        yield f"{ONE} {_told(sizes)}", sizes


def _told(sizes: _Sizes) -> str:
    return ", ".join(f"dimension {axis} of {name} = {size}" for (name, axis), size in sizes.items())


def _repeated(generator: torch.Generator, shapes: dict[int, list[int]], value: torch.Tensor) -> torch.Tensor:
    """A tensor of another size that begins anew at its end; floating-point values are drawn.

    Whole numbers stay in their rows: they may be places of an image in a text, or its height and width.
    """
    if id(value) not in shapes or value.is_floating_point():
        return _resized(generator, shapes, value) if id(value) in shapes else value
    longer = value.detach()
    for axis, size in enumerate(shapes[id(value)]):
        longer = longer.index_select(axis, torch.arange(size, device=value.device) % longer.shape[axis])
    return empty_like(value, longer.shape).copy_(longer).requires_grad_(value.requires_grad)


def _resized(generator: torch.Generator, shapes: dict[int, list[int]], value: torch.Tensor) -> torch.Tensor:
    return _drawn(generator, value, torch.Size(shapes.get(id(value), value.shape)))


def _mapped(
    args: tuple[Any, ...], kwargs: dict[str, Any], change: Callable[[torch.Tensor], torch.Tensor]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    new: tuple[tuple[Any, ...], dict[str, Any]] = tree_map_only(torch.Tensor, change, (args, kwargs))
    return new


def _drawn(
    generator: torch.Generator, value: torch.Tensor, shape: torch.Size | None = None, *, mirrored: bool = False
) -> torch.Tensor:
    """A tensor of that shape that lies in memory as `value` does, with values drawn from those of `value`.

    Elements that share their memory stay equal. Mirrored, floating-point values are turned within their range.
    """
    if value.numel() == 0:
        return value
    known, places = memory_of(value.detach())
    known = known[places]
    new = copy.deepcopy(value.detach()) if shape in (None, value.shape) else empty_like(value, shape)
    if new.numel() == 0:
        return new
    memory, places = memory_of(new)
    drawn = known[torch.randint(len(known), places.shape, generator=generator).to(known.device)]
    if value.is_floating_point():
        if bool((known == known[0]).all()):
            # One value throughout: nothing to draw from, so scale it.
            drawn = drawn * (0.5 + torch.rand(drawn.shape, generator=generator).to(drawn))
        if mirrored:
            drawn = known.min() + known.max() - drawn
    memory[places] = drawn
    return new.requires_grad_(value.requires_grad)


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
    padded = copy.deepcopy(mask)
    padded[0, ..., mask.shape[-1] - max(1, mask.shape[-1] // 3) :] = 0
    return padded

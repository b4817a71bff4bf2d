"""Which dimensions of which inputs may vary: what `capture` is given as `dynamic`, and what a call must keep to."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

from fxopt_core.capture.errors import CaptureError
from fxopt_core.suggestions import did_you_mean
from fxopt_core.verification.isolation import Model


@dataclass(frozen=True)
class Dimension:
    """A size that may vary within a range.

    Attributes:
        name: the same name means the same size wherever it stands.
        minimum: the smallest size, inclusive.
        maximum: the largest size, inclusive.
        places: input (as in `named_leaves`) and dimension where it stands.
    """

    name: str
    minimum: int
    maximum: int
    places: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return f"{self.name!r} ({' and '.join(self.described_places())}; {self.minimum} to {self.maximum})"

    def described_places(self) -> tuple[str, ...]:
        """Each place in words: `dimension 0 of x`."""
        return tuple(f"dimension {axis} of {source}" for source, axis in self.places)


@dataclass(frozen=True)
class Dynamic:
    """What may vary: `choice` speaks for all sizes and is `None` where `dimensions` names them one by one."""

    choice: bool | None = None
    dimensions: tuple[Dimension, ...] = ()

    def __bool__(self) -> bool:
        return self.choice is True or bool(self.dimensions)

    def check(self, leaves: Mapping[str, Any]) -> None:
        """Refuse a call whose sizes are out of range.

        Raises:
            ValueError: naming the dimension, its size and its range, or two sizes of one name.
        """
        for dimension in self.dimensions:
            first = None
            for source, axis in dimension.places:
                value = leaves.get(source)
                if not isinstance(value, torch.Tensor) or value.dim() <= axis:
                    raise ValueError(f"{source} is no tensor with a dimension {axis}, which is {dimension}.")
                size = value.shape[axis]
                if not dimension.minimum <= size <= dimension.maximum:
                    raise ValueError(
                        f"dimension {dimension.name!r} (dimension {axis} of {source}) is {size}; "
                        f"expected {dimension.minimum} to {dimension.maximum}."
                    )
                if first is not None and size != first:
                    raise ValueError(f"dimension {dimension} is {first} in one place and {size} in another.")
                first = size


NOTHING_DYNAMIC = Dynamic()
"""What is left to the method."""

DynamicSpec = bool | Mapping[str, Mapping[int, Any]] | None
"""What `capture` takes as `dynamic`: a choice for all sizes, or named dimensions with ranges."""


def read_dynamic(spec: DynamicSpec, leaves: Mapping[str, Any]) -> Dynamic:
    """Read what `capture` was given as `dynamic` against the example inputs.

    A dimension is `(name, smallest, largest)`; where the name has a range elsewhere, its name alone will do.

    Raises:
        ValueError: an unknown input, a dimension that it does not have, a name with no range or with two, an
            example outside the range, or two sizes for one name. The message names it.
        TypeError: something is not of the form described.
    """
    if spec is None or isinstance(spec, bool):
        return Dynamic(spec)
    form = 'expected such as dynamic={"x": {0: ("batch", 1, 64)}}'
    if not isinstance(spec, Mapping):
        raise TypeError(f"dynamic is of type {type(spec).__name__}; {form}, True, False or None.")
    tensors = {name: value for name, value in leaves.items() if isinstance(value, torch.Tensor)}
    ranges: dict[str, tuple[int, int]] = {}
    places: dict[str, list[tuple[str, int]]] = {}
    for source, axes in spec.items():
        if source not in tensors:
            names, hint = ", ".join(tensors), did_you_mean(source, tensors, most=1)
            raise ValueError(f"dynamic names {source!r}, which is no tensor input; these are {names}.{hint}")
        if not isinstance(axes, Mapping):
            raise TypeError(f"dynamic[{source!r}] is {axes!r}; {form}.")
        for axis, entry in axes.items():
            if not isinstance(axis, int) or not 0 <= axis < tensors[source].dim():
                raise ValueError(f"{source} has {tensors[source].dim()} dimensions, from 0; there is no {axis!r}.")
            match entry:
                case str(name):
                    pass
                case (str(name), int(minimum), int(maximum)):
                    if not 0 <= minimum <= maximum:
                        raise ValueError(f"dimension {name!r}: {minimum} to {maximum} is no range of sizes.")
                    if (known := ranges.setdefault(name, (minimum, maximum))) != (minimum, maximum):
                        raise ValueError(f"dimension {name!r} has two ranges: {known} and {(minimum, maximum)}.")
                case _:
                    raise TypeError(f"dynamic[{source!r}][{axis}] is {entry!r}; {form}.")
            places.setdefault(name, []).append((source, axis))
    for name in places.keys() - ranges.keys():
        raise ValueError(f"dimension {name!r} has no range anywhere; {form}.")
    dynamic = Dynamic(None, tuple(Dimension(name, *ranges[name], tuple(where)) for name, where in places.items()))
    try:
        dynamic.check(leaves)
    except ValueError as error:
        raise ValueError(f"the example inputs do not fit dynamic: {error}") from error
    return dynamic


def parameters_of(model: Model) -> inspect.Signature | None:
    """What a model takes, without annotations (they may be anything); `None` where Python does not know."""
    try:
        known = inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)
    except (TypeError, ValueError):
        return None
    return inspect.Signature([one.replace(annotation=one.empty) for one in known.parameters.values()])


def named_arguments(
    model: Model | inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments of a call by name, in the order of the call. For `model` also what `parameters_of` says of it."""
    parameters = parameters_of(model) if callable(model) else model
    try:
        positional = parameters.bind_partial(*args).arguments if parameters else {}
    except TypeError:  # too many: the model's own error says more
        positional = {}
    unnamed = {f"argument {index}": value for index, value in enumerate(args)}
    return {**(positional or unnamed), **kwargs}


def named_leaves(
    model: Model | inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Everything that a call hands over, by name: `x`, `images[0]`, `batch['mask']`."""
    leaves = {}
    for name, value in named_arguments(model, args, kwargs).items():
        flat, _ = tree_flatten_with_path(value)
        leaves.update({f"{name}{keystr(path)}": leaf for path, leaf in flat})
    return leaves


@contextmanager
def mark_dimensions(dynamic: Dynamic, leaves: Mapping[str, Any], method: str) -> Iterator[None]:
    """Tell Dynamo which sizes of these tensors vary, for the length of the block.

    Raises:
        CaptureError: a range begins below 2.
    """
    before: dict[int, tuple[torch.Tensor, dict[str, Any]]] = {}
    try:
        for dimension in dynamic.dimensions:
            if dimension.minimum < 2:
                raise CaptureError(
                    method,
                    f"dimension {dimension}: Dynamo captures the sizes 0 and 1 apart from all others.",
                    'begin the range at 2, or use method="export".',
                )
            for source, axis in dimension.places:
                tensor = leaves[source]
                before.setdefault(id(tensor), (tensor, dict(vars(tensor))))
                torch._dynamo.mark_dynamic(tensor, axis, min=dimension.minimum, max=dimension.maximum)
        yield
    finally:
        for tensor, attributes in before.values():
            vars(tensor).clear()
            vars(tensor).update(attributes)

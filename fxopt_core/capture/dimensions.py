"""Dimensions of the inputs that may vary: their names, ranges and places, and a check of a call against them."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import keystr, tree_flatten_with_path

from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.isolation import Model

_FIXED = re.compile(r"your code specialized it to be a constant \((\d+)\)")
_NARROWED = re.compile(r"satisfy the generated guard (.*)")
_ITSELF = re.compile(r"\b(\w+) = \1\b")
_USER_LINE = re.compile(r'File "([^"]+)", line (\d+)')

DynamicSpec = bool | Mapping[str, Mapping[int, Any]] | None
"""What `capture` takes as `dynamic`: a choice for all sizes, or named dimensions with ranges."""


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


def named_leaves(model: Model, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Everything that a call hands over, by name: `x`, `images[0]`, `batch['mask']`."""
    try:
        signature = inspect.signature(model.forward if isinstance(model, torch.nn.Module) else model)
        arguments = dict(signature.bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        # Without a signature, or a call that does not fit: the model's own error says more, where there is one.
        return {**{f"argument {index}": value for index, value in enumerate(args)}, **kwargs}
    for one in signature.parameters.values():
        if one.kind is one.VAR_KEYWORD:
            arguments.update(arguments.pop(one.name, {}))
    leaves = {}
    for name, value in arguments.items():
        flat, _ = tree_flatten_with_path(value)
        leaves.update({f"{name}{keystr(path)}": leaf for path, leaf in flat})
    return leaves


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
    ranges: dict[str, tuple[int, int]] = {}
    places: dict[str, list[tuple[str, int]]] = {}
    for source, axes in spec.items():
        _check_input(source, leaves)
        if not isinstance(axes, Mapping):
            raise TypeError(f"dynamic[{source!r}] is {axes!r}; {form}.")
        for axis, entry in axes.items():
            if not isinstance(axis, int) or not 0 <= axis < leaves[source].dim():
                raise ValueError(f"{source} has {leaves[source].dim()} dimensions, from 0; there is no {axis!r}.")
            name, limits = (entry, None) if isinstance(entry, str) else _read_entry(source, axis, entry, form)
            if limits is not None and ranges.setdefault(name, limits) != limits:
                raise ValueError(f"dimension {name!r} has two ranges: {ranges[name]} and {limits}.")
            places.setdefault(name, []).append((source, axis))
    for name in places.keys() - ranges.keys():
        raise ValueError(f"dimension {name!r} has no range anywhere; {form}.")
    dynamic = Dynamic(None, tuple(Dimension(name, *ranges[name], tuple(where)) for name, where in places.items()))
    try:
        dynamic.check(leaves)
    except ValueError as error:
        raise ValueError(f"the example inputs do not fit dynamic: {error}") from error
    return dynamic


def _check_input(source: str, leaves: Mapping[str, Any]) -> None:
    tensors = [name for name, value in leaves.items() if isinstance(value, torch.Tensor)]
    if source not in tensors:
        near = difflib.get_close_matches(str(source), tensors, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"dynamic names {source!r}, which is no tensor input; these are {', '.join(tensors)}.{hint}")


def _read_entry(source: str, axis: int, entry: Any, form: str) -> tuple[str, tuple[int, int]]:
    match entry:
        case (str(name), int(minimum), int(maximum)):
            if not 0 <= minimum <= maximum:
                raise ValueError(f"dimension {name!r}: {minimum} to {maximum} is no range of sizes.")
            return name, (minimum, maximum)
    raise TypeError(f"dynamic[{source!r}][{axis}] is {entry!r}; {form}.")


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


def _plainly(reason: str) -> str:
    """torch's sentence without its advice about torch's own interface."""
    reason = _ITSELF.sub(r"\1", reason.split(" If you're using")[0].rstrip("."))
    if fixed := _FIXED.search(reason):
        return f"the model fixes it to {fixed[1]}"
    if narrowed := _NARROWED.search(reason):
        return f"the model's own conditions leave only {narrowed[1]}"
    return reason


def violated(error: Exception, dimensions: Iterable[Dimension], method: str) -> CaptureError | None:
    """The error for a dimension that torch could not keep free, or `None` when `error` is about something else."""
    text = str(error)
    if "Constraints violated" not in text and "onstraintViolation" not in type(error).__name__:
        return None
    reasons = [line.strip(" -") for line in text.splitlines() if line.startswith("  - ")] or [text.splitlines()[0]]
    named = []
    for dimension in dimensions:
        for source, axis in dimension.places:
            reasons = [reason.replace(f"L['{source}'].size()[{axis}]", dimension.name) for reason in reasons]
        named += [str(dimension) for reason in reasons if dimension.name in reason.split()]
    why = "; ".join(dict.fromkeys(_plainly(reason) for reason in reasons))
    lines = _USER_LINE.findall(text)
    why += f" (at {lines[-1][0]}:{lines[-1][1]})" if lines else ""
    about = f"dimension {', '.join(dict.fromkeys(named))}" if named else "a dimension"
    return CaptureError(
        method,
        f"{about} does not hold its range: {why}.",
        "narrow the range, leave the dimension out of dynamic, or take the dependence on its size out of the model.",
    )

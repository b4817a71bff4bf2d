"""Reading what `capture` is given as `dynamic`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from fxopt_core.capture.dimensions import Dimension, Dynamic
from fxopt_core.suggestions import did_you_mean

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
        hint = did_you_mean(source, tensors, most=1)
        raise ValueError(f"dynamic names {source!r}, which is no tensor input; these are {', '.join(tensors)}.{hint}")


def _read_entry(source: str, axis: int, entry: Any, form: str) -> tuple[str, tuple[int, int]]:
    match entry:
        case (str(name), int(minimum), int(maximum)):
            if not 0 <= minimum <= maximum:
                raise ValueError(f"dimension {name!r}: {minimum} to {maximum} is no range of sizes.")
            return name, (minimum, maximum)
    raise TypeError(f"dynamic[{source!r}][{axis}] is {entry!r}; {form}.")

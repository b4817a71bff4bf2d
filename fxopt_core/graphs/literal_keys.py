"""Hashable keys of arguments, equal only where the arguments are the same to the last bit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import torch
from torch import fx

_EXACT = frozenset({int, bool, str, bytes, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format,
                    type(Ellipsis)})  # fmt: skip


class UnknownLiteralError(TypeError):
    """An argument is of a type of which it is not known when two values are the same."""


def literal_key(value: Any, canonical: Mapping[fx.Node, Hashable]) -> Hashable:
    """The key of an argument of a node.

    Types count: `1`, `1.0` and `True` differ. Floating-point numbers are the same when their bits are: `0.0` and
    `-0.0` differ, and NaN is the same as itself. Nodes are represented by what `canonical` maps them to.

    Raises:
        UnknownLiteralError: the argument contains a value of another type.
    """
    kind = type(value)
    if kind is fx.Node:
        return canonical.get(value, value)
    if kind in _EXACT:
        return (kind, value)
    if kind is float:
        return (float, value.hex())
    if kind is complex:
        return (complex, value.real.hex(), value.imag.hex())
    if isinstance(value, (tuple, list)):
        return (kind, *[literal_key(item, canonical) for item in value])
    if isinstance(value, dict):
        return (dict, *[(name, literal_key(item, canonical)) for name, item in value.items()])
    if kind is slice:
        return (slice, *[literal_key(part, canonical) for part in (value.start, value.stop, value.step)])
    raise UnknownLiteralError(f"an argument of type {kind.__name__}")

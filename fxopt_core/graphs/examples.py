"""What a capture knows of a node's value, and the tensors of a module by their dotted names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import torch
from torch import fx, nn

EXAMPLE_META = ("val", "example_value")
"""Where captures keep a node's value for the example inputs, as tensors without data: ATen level, torch level."""

HELD_BY_MODULE = "held_by_module"
"""In the `meta` of an input that stands for a parameter or buffer of the model: what `memory_of` says of that."""


class UnknownSizeError(ValueError):
    """A size is not known before the graph runs, because it depends on data."""


def in_example(value: Any) -> Any:
    """A symbolic number as it was in the example; any other value as it is.

    Raises:
        UnknownSizeError: it depends on data.
    """
    if not isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return value
    if value.node.hint is None:
        raise UnknownSizeError(f"the size {value} depends on data; expected one that is known before the graph runs")
    return value.node.hint


def value_of(node: fx.Node) -> Any:
    """The value that a capture kept of a node: a tensor without data, a number, or a container; `None` without one."""
    meta = node.meta
    for name in EXAMPLE_META:
        if name in meta:
            return meta[name]
    return None


def example_of(node: fx.Node) -> torch.Tensor | None:
    """The tensor without data that a capture kept as a node's value; `None` where there is none."""
    value = value_of(node)
    return value if isinstance(value, torch.Tensor) else None


def called(node: fx.Node, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """What the function or method that a node calls gives for other arguments."""
    if node.op == "call_method":
        return getattr(arguments[0], str(node.target))(*arguments[1:], **keywords)
    return node.target(*arguments, **keywords)  # type: ignore[operator]


def keep_example(node: fx.Node, like: fx.Node) -> fx.Node:
    """The node, which has the value of `like` where it has none of its own."""
    for name in (*EXAMPLE_META, "tensor_meta"):
        if name in like.meta:
            node.meta.setdefault(name, like.meta[name])
    return node


def attribute_of(owner: nn.Module | None, name: object) -> Any:
    """What a module holds under a dotted name, such as the target of a `get_attr` node; `None` if nothing."""
    try:
        return None if owner is None else attrgetter(str(name))(owner)
    except AttributeError:
        return None

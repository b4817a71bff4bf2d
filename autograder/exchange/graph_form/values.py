"""What a node computes, as far as a picture needs it: shape and dtype as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch.fx.passes.shape_prop import TensorMetadata

from autograder.exchange.graph_form.format import ENCODED_VALUE, GraphFormatError, Limits, entries, listed, shown
from autograder.exchange.graph_form.literals import DTYPES

_SOURCES = ("val", "example_value", "tensor_meta", ENCODED_VALUE)

# No quotes: torch.fx can be told to print metadata into the code that it generates.
_EXPRESSION = re.compile(r"[A-Za-z0-9_ +\-*/%().,<>=!&|~^]{1,200}")
_TYPE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_UNREADABLE = "unknown"


def encode_value(node: fx.Node) -> Any:
    """Shape and dtype of what `node` computes, from its metadata; `None` where the graph does not say.

    See `autograder.exchange.graph_form.format.ENCODED_VALUE` for the form.
    """
    for key in _SOURCES:
        if node.meta.get(key) is not None:
            return _encode(node.meta[key], key == ENCODED_VALUE, 0)
    return None


def _encode(value: Any, is_encoded: bool, depth: int) -> Any:
    if value is None or depth > 4:
        return None
    if isinstance(value, (torch.Tensor, TensorMetadata)):
        return {"shape": [_size(size) for size in value.shape], "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, (list, tuple)):
        return [_encode(element, is_encoded, depth + 1) for element in value]
    if is_encoded and isinstance(value, Mapping):
        return dict(value)
    name = type(value).__name__
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return {"type": name, "expression": _expression(value)}
    return {"type": name if _TYPE_NAME.fullmatch(name) else _UNREADABLE}


def _size(size: Any) -> int | str:
    return size if type(size) is int else _expression(size)


def _expression(value: Any) -> str:
    text = str(value)
    return text if _EXPRESSION.fullmatch(text) else _UNREADABLE


def decode_value(value: Any, limits: Limits, where: str) -> Any:
    """`value`, checked to have the form that `encode_value` gives.

    Raises:
        GraphFormatError: it has not; the message starts with `where`.
    """
    return _decode(value, limits, f"{where}: value", 0)


def _decode(value: Any, limits: Limits, where: str, depth: int) -> Any:
    if value is None:
        return None
    if type(value) is list and depth < 5:
        return [_decode(element, limits, where, depth + 1) for element in listed(value, 1000, where)]
    if type(value) is dict and "type" in value:
        entries(value, ("type",), where, optional=("expression",))
        if type(value["type"]) is not str or not _TYPE_NAME.fullmatch(value["type"]):
            raise GraphFormatError(f"{where}: {shown(value['type'])} is no name of a type")
        if "expression" in value:
            _check_expression(value["expression"], where)
        return dict(value)
    entries(value, ("shape", "dtype"), where)
    for size in listed(value["shape"], limits.dimensions, f"{where}: shape"):
        if type(size) is not int:
            _check_expression(size, where)
        elif not 0 <= size < 1 << 63:
            raise GraphFormatError(f"{where}: {shown(size)} is no size of a tensor")
    if type(value["dtype"]) is not str or value["dtype"] not in DTYPES:
        raise GraphFormatError(f"{where}: {shown(value['dtype'])} is no dtype of torch such as 'float32'")
    return {"shape": list(value["shape"]), "dtype": value["dtype"]}


def _check_expression(text: Any, where: str) -> None:
    if type(text) is not str or not _EXPRESSION.fullmatch(text):
        raise GraphFormatError(f"{where}: {shown(text)} is no symbolic size such as 's0 + 1'")

"""Arguments of nodes as JSON, exact in type and bits: 1, 1.0 and True differ, as do 0.0 and -0.0, and NaN payloads.

`null`, booleans, integers, finite floats, strings and lists stand for themselves. Everything else is an object with
one key: `{"node": "add"}`, `{"float": "7ff8000000000000"}` (bits of an infinity or NaN), `{"complex": [bits, bits]}`,
`{"tuple": [...]}`, `{"dict": [[key, value], ...]}`, `{"slice": [start, stop, step]}`, `{"range": [start, stop, step]}`,
`{"size": [...]}` (a `torch.Size`; torch.fx makes tuples of those in nodes, modules keep them), `{"ellipsis": null}`,
`{"dtype": "float32"}`, `{"device": "cpu"}`, `{"layout": "strided"}`, `{"memory_format": "channels_last"}`.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from types import EllipsisType
from typing import Any

import torch
from torch import fx

from autograder.exchange.graph_form.format import GraphFormatError, Limits, shown

DTYPES: dict[str, torch.dtype] = {
    str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)
}
_LAYOUTS = {str(value).removeprefix("torch."): value for value in vars(torch).values() if type(value) is torch.layout}
_MEMORY_FORMATS = {
    str(value).removeprefix("torch."): value for value in vars(torch).values() if type(value) is torch.memory_format
}
TORCH_CONSTANTS = {f"torch.{name}" for name in (*DTYPES, *_LAYOUTS, *_MEMORY_FORMATS, "Size", "device")}
"""Dotted names that the `repr` of an argument may hold."""

_DEVICE = re.compile(r"(cpu|cuda|mps|meta|xpu)(:[0-9]{1,3})?")

# torch.fx takes a line of generated code that contains this for a marker of its own and drops the line.
_FX_MARKER = "# COUNTER:"


def encode_literal(value: Any, where: str) -> Any:
    """One argument of a node as JSON.

    Raises:
        GraphFormatError: the argument is of a type that has no JSON form here; the message starts with `where`.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": _bits(value)}
    if isinstance(value, fx.Node):
        return {"node": value.name}
    if kind in (list, fx.immutable_collections.immutable_list):
        return [encode_literal(element, where) for element in value]
    if kind is tuple:
        return {"tuple": [encode_literal(element, where) for element in value]}
    if kind is torch.Size:
        return {"size": [encode_literal(element, where) for element in value]}
    if kind in (dict, fx.immutable_collections.immutable_dict):
        for key in value:
            if not _is_key(key):
                raise GraphFormatError(f"{where}: {shown(key)} cannot be a key of a dictionary in an encoded graph")
        return {"dict": [[key, encode_literal(element, where)] for key, element in value.items()]}
    if kind in (slice, range):
        return {kind.__name__: [encode_literal(part, where) for part in (value.start, value.stop, value.step)]}
    if kind is complex:
        return {"complex": [_bits(value.real), _bits(value.imag)]}
    if kind is EllipsisType:
        return {"ellipsis": None}
    if kind in (torch.dtype, torch.layout, torch.memory_format):
        return {kind.__name__: str(value).removeprefix("torch.")}
    if kind is torch.device:
        return {"device": str(value)}
    raise GraphFormatError(
        f"{where}: an argument of type {kind.__module__}.{kind.__qualname__} cannot be encoded; "
        "expected numbers, strings, tensors' dtypes and the like, or nodes, in lists, tuples and dictionaries"
    )


class LiteralDecoder:
    """Turns the JSON form of arguments back into Python values, within limits that hold for one document.

    Args:
        limits: largest integers, strings and nesting, and how many entries in all.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._remaining = limits.literals

    def decode(self, value: Any, nodes: dict[str, fx.Node], where: str) -> Any:
        """The Python value of one encoded argument.

        Args:
            value: the JSON form.
            nodes: nodes that may be referred to, by name: those before the one that is decoded.
            where: what the argument belongs to, for messages.

        Raises:
            GraphFormatError: `value` is no encoded argument, or is too large.
        """
        return self._decode(value, nodes, where, 0)

    def _decode(self, value: Any, nodes: dict[str, fx.Node], where: str, depth: int) -> Any:
        self._remaining -= 1
        if self._remaining < 0:
            raise GraphFormatError(f"{where}: more than {self._limits.literals} argument entries in one document")
        if depth > self._limits.nesting:
            raise GraphFormatError(f"{where}: containers nested more than {self._limits.nesting} deep")
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is int:
            return self._integer(value, where)
        if kind is float:
            if not math.isfinite(value):
                raise GraphFormatError(f"{where}: a number out of range; infinities and NaN are written as bits")
            return value
        if kind is str:
            return self._string(value, where)
        if kind is list:
            return [self._decode(element, nodes, where, depth + 1) for element in value]
        if kind is dict and len(value) == 1:
            ((tag, content),) = value.items()
            decoder = _DECODERS.get(tag)
            if decoder is not None:

                def inside(element: Any) -> Any:
                    return self._decode(element, nodes, where, depth + 1)

                return decoder(content, inside, nodes, where)
        raise GraphFormatError(
            f"{where}: {shown(value)} is no encoded argument; an object has one key out of {', '.join(_DECODERS)}"
        )

    def _integer(self, value: int, where: str) -> int:
        if value.bit_length() > self._limits.integer_bits:
            raise GraphFormatError(
                f"{where}: an integer of {value.bit_length()} bits; at most {self._limits.integer_bits} are accepted"
            )
        return value

    def _string(self, value: str, where: str) -> str:
        if len(value) > self._limits.string_length:
            raise GraphFormatError(
                f"{where}: a string of {len(value)} characters; at most {self._limits.string_length} are accepted"
            )
        if _FX_MARKER in value:
            raise GraphFormatError(f"{where}: a string that contains {_FX_MARKER!r}, which torch.fx keeps for itself")
        return value


_Inside = Callable[[Any], Any]
_Nodes = dict[str, fx.Node]


def _is_key(key: Any) -> bool:
    return key is None or type(key) in (bool, int, str) or (type(key) is float and math.isfinite(key))


def _bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def _from_bits(text: Any, where: str) -> float:
    if type(text) is not str or not re.fullmatch(r"[0-9a-f]{16}", text):
        raise GraphFormatError(f"{where}: expected the 16 hexadecimal digits of a double, got {shown(text)}")
    (value,) = struct.unpack(">d", bytes.fromhex(text))
    return float(value)


def _several(content: Any, inside: _Inside, where: str, tag: str) -> list[Any]:
    if type(content) is not list:
        raise GraphFormatError(f"{where}: {tag!r} holds a list, got {shown(content)}")
    return [inside(element) for element in content]


def _decode_node(content: Any, inside: _Inside, nodes: _Nodes, where: str) -> fx.Node:
    if type(content) is not str or content not in nodes:
        raise GraphFormatError(f"{where}: refers to the node {shown(content)}, which is not defined before it")
    return nodes[content]


def _decode_float(content: Any, inside: _Inside, nodes: _Nodes, where: str) -> float:
    value = _from_bits(content, where)
    if math.isfinite(value):
        raise GraphFormatError(f"{where}: the finite float {value!r} is written as a number, not as bits")
    return value


def _decode_complex(content: Any, inside: _Inside, nodes: _Nodes, where: str) -> complex:
    if type(content) is not list or len(content) != 2:
        raise GraphFormatError(f"{where}: 'complex' holds two floats as bits, got {shown(content)}")
    return complex(_from_bits(content[0], where), _from_bits(content[1], where))


def _decode_tuple(content: Any, inside: _Inside, nodes: _Nodes, where: str) -> tuple[Any, ...]:
    return tuple(_several(content, inside, where, "tuple"))


def _decode_size(content: Any, inside: _Inside, nodes: _Nodes, where: str) -> torch.Size:
    sizes = _several(content, inside, where, "size")
    if any(type(size) is not int or size.bit_length() > 63 for size in sizes):
        raise GraphFormatError(f"{where}: 'size' holds integers, got {shown(content)}")
    return torch.Size(sizes)


def _decode_dict(content: Any, inside: _Inside, nodes: _Nodes, where: str) -> dict[Any, Any]:
    if type(content) is not list or any(type(pair) is not list or len(pair) != 2 for pair in content):
        raise GraphFormatError(f"{where}: 'dict' holds a list of pairs, got {shown(content)}")
    result = {}
    for key, value in content:
        if not _is_key(key):
            raise GraphFormatError(f"{where}: {shown(key)} cannot be a key of a dictionary in an encoded graph")
        result[inside(key)] = inside(value)
    if len(result) != len(content):
        raise GraphFormatError(f"{where}: a dictionary with two equal keys")
    return result


def _decode_slice(content: Any, inside: _Inside, nodes: _Nodes, where: str) -> slice:
    parts = _several(content, inside, where, "slice")
    if len(parts) != 3:
        raise GraphFormatError(f"{where}: 'slice' holds start, stop and step, got {shown(content)}")
    return slice(*parts)


def _decode_range(content: Any, inside: _Inside, nodes: _Nodes, where: str) -> range:
    parts = _several(content, inside, where, "range")
    if len(parts) != 3 or any(type(part) is not int for part in parts) or parts[2] == 0:
        raise GraphFormatError(f"{where}: 'range' holds three integers, the last not 0, got {shown(content)}")
    return range(*parts)


def _decode_ellipsis(content: Any, inside: _Inside, nodes: _Nodes, where: str) -> EllipsisType:
    if content is not None:
        raise GraphFormatError(f"{where}: 'ellipsis' holds null, got {shown(content)}")
    return ...


def _decode_device(content: Any, inside: _Inside, nodes: _Nodes, where: str) -> torch.device:
    if type(content) is not str or not _DEVICE.fullmatch(content):
        raise GraphFormatError(f"{where}: {shown(content)} is no device such as 'cpu' or 'cuda:0'")
    return torch.device(content)


def _one_of(known: dict[str, Any], what: str) -> Callable[[Any, _Inside, _Nodes, str], Any]:
    def decode(content: Any, inside: _Inside, nodes: _Nodes, where: str) -> Any:
        if type(content) is not str or content not in known:
            raise GraphFormatError(f"{where}: {shown(content)} is no {what}")
        return known[content]

    return decode


_DECODERS: dict[str, Callable[[Any, _Inside, _Nodes, str], Any]] = {
    "node": _decode_node,
    "float": _decode_float,
    "complex": _decode_complex,
    "tuple": _decode_tuple,
    "size": _decode_size,
    "dict": _decode_dict,
    "slice": _decode_slice,
    "range": _decode_range,
    "ellipsis": _decode_ellipsis,
    "device": _decode_device,
    "dtype": _one_of(DTYPES, "dtype of torch such as 'float32'"),
    "layout": _one_of(_LAYOUTS, "layout of torch such as 'strided'"),
    "memory_format": _one_of(_MEMORY_FORMATS, "memory format of torch such as 'contiguous_format'"),
}

"""Plain values with tensors, as JSON and storages: what goes to the process that runs graphs, and comes back.

The form is that of arguments in `literals`, with `{"tensor": 3}` for a tensor, and `{"unsent": "SparseTensor"}` for
what is no plain data. Tensors that are one object, or share memory, do so on the other side, too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.immutable_collections import immutable_dict, immutable_list

from autograder.exchange.graph_form.format import DEFAULT_LIMITS, EncodedGraph, GraphFormatError, entries, shown
from autograder.exchange.graph_form.literals import LiteralDecoder, encode_literal
from autograder.exchange.graph_form.tensors import TensorDecoder, TensorEncoder

NESTING = 40
"""How deep lists, tuples and dictionaries may lie within one another."""

UNPACKED_BYTES = 256 << 20
"""Most bytes of all tensors of a parcel as they appear: an expanded tensor is small to send and huge to compare."""


@dataclass(frozen=True)
class Unsent:
    """Stands for a value that is no plain data: it equals no right answer.

    Attributes:
        kind: the name of its type, or what else kept it from being sent.
    """

    kind: str


def pack(value: Any) -> EncodedGraph:
    """`value` as a document and storages; nothing in it is changed.

    Numbers, strings, dtypes and the like, tensors, and lists, tuples and dictionaries of them. Anything else becomes an
    `Unsent`.
    """
    tensors = TensorEncoder()
    document = _packed(value, tensors, 0)
    storages = tensors.finish()
    return EncodedGraph({"tensors": tensors.entries, "value": document}, storages)


def _packed(value: Any, tensors: TensorEncoder, depth: int) -> Any:
    if depth > NESTING:
        return {"unsent": "nested too deeply"}
    if isinstance(value, torch.Tensor):
        return _packed_tensor(value, tensors)
    if type(value) in (list, immutable_list):
        return [_packed(element, tensors, depth + 1) for element in value]
    # Named tuples, as `torch.max` returns them, arrive as what they are compared as.
    if isinstance(value, tuple) and type(value) is not torch.Size:
        return {"tuple": [_packed(element, tensors, depth + 1) for element in value]}
    if type(value) in (dict, immutable_dict):
        return {
            "dict": [
                [_packed(key, tensors, depth + 1), _packed(item, tensors, depth + 1)] for key, item in value.items()
            ]
        }
    if type(value) is int and value.bit_length() > DEFAULT_LIMITS.integer_bits:
        return {"unsent": "an integer of more than 64 bits"}
    if type(value) is str and len(value) > DEFAULT_LIMITS.string_length:
        return {"unsent": "a long string"}
    try:
        return encode_literal(value, "value")
    except GraphFormatError:
        return {"unsent": type(value).__name__[:80]}


def _packed_tensor(tensor: torch.Tensor, tensors: TensorEncoder) -> Any:
    try:
        if tensor.is_conj() or tensor.is_neg():
            tensor = tensor.resolve_conj().resolve_neg()
        return {"tensor": tensors.add(tensor, "value")}
    except (GraphFormatError, RuntimeError):
        return {"unsent": f"a {type(tensor).__name__} of layout {tensor.layout} on {tensor.device}"}


def unpack(parcel: EncodedGraph) -> Any:
    """The value that `pack` took. Nothing in the parcel is believed.

    Raises:
        GraphFormatError: it is no parcel, or its tensors would be too large.
    """
    document = entries(parcel.document, ("tensors", "value"), "parcel")
    rows = document["tensors"]
    if type(rows) is list:
        _check_sizes(rows)
    tensors = TensorDecoder(rows, parcel.tensors, DEFAULT_LIMITS)
    return _unpacked(document["value"], tensors, LiteralDecoder(DEFAULT_LIMITS), 0)


def as_sent(value: Any) -> Any:
    """`value` as another process gets it: of memory that tensors share only the part that they use.

    Whoever compares what a process here does to values with what another one does hands both of them this.
    """
    return unpack(pack(value))


def _check_sizes(rows: list[Any]) -> None:
    total = 0
    for row in rows:
        shape = row.get("shape") if type(row) is dict else None
        if type(shape) is list and all(type(size) is int for size in shape):
            total += 16 * math.prod(size for size in shape)
    if total > UNPACKED_BYTES * 4:
        raise GraphFormatError("parcel: its tensors are too large to be compared")


def _unpacked(value: Any, tensors: TensorDecoder, literals: LiteralDecoder, depth: int) -> Any:
    if depth > NESTING + 1:
        raise GraphFormatError(f"parcel: nested more than {NESTING} deep")

    def inside(element: Any) -> Any:
        return _unpacked(element, tensors, literals, depth + 1)

    if type(value) is list:
        return [inside(element) for element in value]
    if type(value) is dict and len(value) == 1:
        ((tag, content),) = value.items()
        if tag == "tensor":
            return tensors.get(content, "parcel")
        if tag == "unsent" and type(content) is str:
            return Unsent(content[:200])
        if tag == "tuple" and type(content) is list:
            return tuple(inside(element) for element in content)
        if tag == "dict" and type(content) is list:
            return _unpacked_dict(content, inside)
    return literals.decode(value, {}, "parcel")


def _unpacked_dict(content: list[Any], inside: Any) -> dict[Any, Any]:
    result = {}
    for pair in content:
        if type(pair) is not list or len(pair) != 2 or type(pair[0]) not in (str, int, bool, type(None), float):
            raise GraphFormatError(f"parcel: {shown(pair)} is no pair of a plain key and a value")
        result[pair[0]] = inside(pair[1])
    return result

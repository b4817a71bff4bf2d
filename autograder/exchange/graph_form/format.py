"""The encoded form of a graph: what it consists of, how large it may be, and the error when it is not well-formed.

A document (version 1) is a JSON object:

```text
{"format": "fxopt-graph", "version": 1,
 "tensors": [{"storage": "storage0", "dtype": "float32", "shape": [4, 3], "strides": [3, 1], "offset": 0,
              "parameter": true, "requires_grad": true}, ...],
 "modules": [..., {"kind": "graph", "training": false, "signature": null,
                   "attributes": [{"path": "weight", "tensor": 0, "buffer": null},
                                  {"path": "conv", "module": 0}],
                   "nodes": [{"name": "x", "op": "placeholder", "target": "x", "args": [], "kwargs": {},
                              "value": {"shape": [2, "s0"], "dtype": "float32"}}, ...]}]}
```

`tensors` describes each tensor object once: attributes that name the same entry are tied, and entries that name
the same storage share memory. The storages themselves travel beside the document, as one-dimensional tensors.
`modules` lists every submodule before the graph that uses it; the last entry is the graph that was encoded.
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any

import torch

FORMAT = "fxopt-graph"
VERSION = 1

OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")

ENCODED_VALUE = "encoded_value"
"""Key of `node.meta` under which a decoded node carries what its encoder *claimed* about its value.

`{"shape": [2, "s0"], "dtype": "float32"}` for a tensor (symbolic sizes as strings), `{"type": "SymInt",
"expression": "s0"}` for a symbolic number, `{"type": "int"}` for anything else, a list of these for a tuple or list.
It comes from whoever encoded the graph: fit for drawing, never for a verdict.
"""

# These would be bound to something else in the code that torch.fx generates.
_RESERVED_NAMES = frozenset({"self", "torch", "device", "inf", "nan", "NoneType", "fx_pytree", "pytree", "__debug__"})

_SHOWN = 80


class GraphFormatError(ValueError):
    """A graph cannot be encoded, or something is no well-formed encoded graph; the message names the entry."""


@dataclass(frozen=True)
class EncodedGraph:
    """An fx graph as plain data.

    Attributes:
        document: JSON values only; `json.dumps(document, allow_nan=False)` works.
        tensors: the storages that the document names, as one-dimensional contiguous CPU tensors.
    """

    document: dict[str, Any]
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Limits:
    """How large an encoded graph may be before `decode` refuses it. These bound decoding, not running.

    Attributes:
        nodes: nodes in all graphs together.
        modules: graphs and modules together.
        module_depth: graphs within graphs.
        attributes: attributes of all graphs and modules together.
        nesting: lists, tuples and dictionaries within one another in one argument.
        literals: argument entries (numbers, names, containers) in all nodes together.
        integer_bits: bits of an integer literal.
        string_length: characters of a string literal.
        name_length: characters of a node name, an attribute path or a target.
        tensor_bytes: bytes of all storages together.
        dimensions: dimensions of a tensor.
    """

    nodes: int = 50_000
    modules: int = 2_000
    module_depth: int = 16
    attributes: int = 20_000
    nesting: int = 20
    literals: int = 1_000_000
    integer_bits: int = 64
    string_length: int = 1_000
    name_length: int = 500
    tensor_bytes: int = 1 << 30
    dimensions: int = 32


DEFAULT_LIMITS = Limits()


def words(text: str) -> tuple[str, ...]:
    """The words of `text`: for tables that are easier to read as prose than as a column of quotes."""
    return tuple(text.split())


def shown(value: Any) -> str:
    """`value` for an error message: never long, whatever it is."""
    if isinstance(value, (list, dict)) and len(value) > 8:
        return f"a {type(value).__name__} of {len(value)} entries"
    if isinstance(value, str):
        value = value[: _SHOWN + 1]
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except (RecursionError, ValueError):
        return f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def entries(value: Any, required: tuple[str, ...], where: str, optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """`value`, checked to be a JSON object with exactly these keys.

    Raises:
        GraphFormatError: it is something else; the message starts with `where`.
    """
    if type(value) is not dict:
        raise GraphFormatError(f"{where}: expected an object with {', '.join(required)}, got {shown(value)}")
    missing = [key for key in required if key not in value]
    unknown = [key for key in value if key not in required and key not in optional]
    if missing or unknown:
        raise GraphFormatError(
            f"{where}: expected an object with {', '.join(required)}"
            + (f"; missing: {', '.join(missing)}" if missing else "")
            + (f"; unknown: {', '.join(shown(key) for key in unknown[:3])}" if unknown else "")
        )
    return value


def listed(value: Any, most: int, where: str) -> list[Any]:
    """`value`, checked to be a JSON list of at most `most` entries.

    Raises:
        GraphFormatError: it is something else; the message starts with `where`.
    """
    if type(value) is not list:
        raise GraphFormatError(f"{where}: expected a list, got {shown(value)}")
    if len(value) > most:
        raise GraphFormatError(f"{where}: {len(value)} entries; at most {most} are accepted")
    return value


def flag(value: Any, where: str) -> bool:
    """`value`, checked to be true or false.

    Raises:
        GraphFormatError: it is something else; the message starts with `where`.
    """
    if type(value) is not bool:
        raise GraphFormatError(f"{where}: expected true or false, got {shown(value)}")
    return value


def whole_number(value: Any, most: int, where: str) -> int:
    """`value`, checked to be an integer from 0 to `most`.

    Raises:
        GraphFormatError: it is something else; the message starts with `where`.
    """
    if type(value) is not int or not 0 <= value <= most:
        raise GraphFormatError(f"{where}: expected an integer from 0 to {most}, got {shown(value)}")
    return value


def is_identifier(text: Any, limits: Limits) -> bool:
    """Whether `text` can stand as a name in generated Python code and means there exactly itself."""
    return (
        type(text) is str
        and len(text) <= limits.name_length
        and text.isidentifier()
        and not keyword.iskeyword(text)
        # Python normalises identifiers: a full-width "self" would be `self`.
        and (text.isascii() or unicodedata.normalize("NFKC", text) == text)
        and not (text.startswith("__") and text.endswith("__"))
    )


def identifier(text: Any, limits: Limits, where: str) -> str:
    """`text`, checked to be a Python identifier that is free for use in generated code.

    Raises:
        GraphFormatError: it is something else; the message starts with `where`.
    """
    if not is_identifier(text, limits) or text in _RESERVED_NAMES:
        raise GraphFormatError(
            f"{where}: {shown(text)} is no usable name; expected a Python identifier that is no keyword, "
            f"no reserved name and not longer than {limits.name_length} characters"
        )
    return text


def attribute_path(text: Any, limits: Limits, where: str) -> tuple[str, ...]:
    """The parts of a dotted path such as `layers.0.weight`, each an identifier or a number.

    Raises:
        GraphFormatError: it is something else; the message starts with `where`.
    """
    if type(text) is str and len(text) <= limits.name_length:
        parts = tuple(text.split("."))
        if len(parts) <= 2 * limits.module_depth and all(
            is_identifier(part, limits) or re.fullmatch(r"[0-9]{1,9}", part) for part in parts
        ):
            return parts
    raise GraphFormatError(f"{where}: {shown(text)} is no attribute path such as 'layers.0.weight'")

"""Symbols: the sizes that a captured graph leaves open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from fxopt_core.capture.dimensions import Dimension
from fxopt_core.capture.errors import CaptureError
from fxopt_core.capture.partition import Partition


@dataclass(frozen=True)
class Symbol:
    """A size that is open in a captured graph.

    Attributes:
        name: the name given to it in `dynamic`, else torch's own, such as `s17`; `u0` for one that depends on data.
        in_graph: torch's name for it, as the graph prints it.
        minimum: the smallest value for which the graph holds.
        maximum: the largest, `None` where there is no limit.
        places: where it stands: `dimension 0 of x`, or `result of item` where an operation gives it.
    """

    name: str
    in_graph: str
    minimum: int
    maximum: int | None
    places: tuple[str, ...]


def symbols(
    partitions: tuple[Partition, ...], dimensions: tuple[Dimension, ...], ranges: Mapping[Any, Any] | None = None
) -> tuple[Symbol, ...]:
    """The symbols in the sizes of all values of the graphs, in order.

    Args:
        partitions: graphs whose nodes carry fake values.
        dimensions: that were asked for; their names are given to the symbols that stand in their places.
        ranges: from symbol to its range, where torch's own bookkeeping is not the last word.
    """
    found: dict[str, Symbol] = {}
    for partition in partitions:
        sources = {one.name: one.source for one in partition.inputs}
        for node in partition.graph_module.graph.nodes:
            for axis, size in _open_sizes(node):
                for symbol in sorted(size.node.expr.free_symbols, key=str):
                    limits = (ranges or {}).get(symbol) or size.node.shape_env.bound_sympy(symbol)
                    source = sources.get(node.name)
                    place = f"result of {node.name}" if source is None else f"dimension {axis} of {source}"
                    name = _name(dimensions, source, axis) if size.node.expr == symbol else None
                    _note(found, str(symbol), name, limits, place, is_input=source is not None)
    return tuple(found.values())


def _note(found: dict[str, Symbol], key: str, name: str | None, limits: Any, place: str, *, is_input: bool) -> None:
    known = found.get(key)
    if known is None:
        maximum = int(limits.upper) if limits.upper.is_Integer else None
        found[key] = Symbol(name or key, key, int(limits.lower), maximum, (place,))
    elif is_input and place not in known.places:
        chosen = name if known.name == key and name else known.name
        found[key] = Symbol(chosen, key, known.minimum, known.maximum, (*known.places, place))


def _open_sizes(node: fx.Node) -> list[tuple[int, torch.SymInt]]:
    value = node.meta.get("val", node.meta.get("example_value"))
    if isinstance(value, torch.Tensor):
        sizes: list[Any] = list(value.shape)
        return [(axis, size) for axis, size in enumerate(sizes) if isinstance(size, torch.SymInt)]
    if isinstance(value, torch.SymInt) and node.op != "placeholder":
        return [(0, value)]
    return []


def _name(dimensions: tuple[Dimension, ...], source: str | None, axis: int) -> str | None:
    return next((one.name for one in dimensions if (source, axis) in one.places), None)


def refuse_merged(found: tuple[Symbol, ...], dimensions: tuple[Dimension, ...], method: str) -> None:
    """Dynamo makes one symbol of sizes that the model needs to be equal, also where `dynamic` tells them apart.

    Raises:
        CaptureError: two names share a symbol.
    """
    for symbol in found:
        names = [one.name for one in dimensions if set(one.described_places()) & set(symbol.places)]
        if len(names) > 1:
            raise CaptureError(
                method,
                f"dimensions {' and '.join(map(repr, names))} cannot vary apart: the model needs them to be equal.",
                "give them one name.",
            )

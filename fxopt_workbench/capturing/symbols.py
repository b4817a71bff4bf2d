"""The sizes that captured graphs leave open, and what `torch.export` checks about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from fxopt_core.capture.dynamo_log import Guard
from fxopt_core.capture.result import Captured, Symbol


def symbols(captured: Captured) -> tuple[Symbol, ...]:
    """The symbols in the sizes of all values of the graphs, in order; with the names that `dynamic` gives them."""
    names: dict[tuple[str | None, int], str] = {
        place: one.name for one in captured.dynamic.dimensions for place in one.places
    }
    found: dict[str, Symbol] = {}
    for graph in captured.partitions:
        sources = {one.name: one.source for one in graph.inputs}
        for node in graph.graph_module.graph.nodes:
            source = sources.get(node.name)
            for axis, size in _open_sizes(node):
                for symbol in sorted(size.node.expr.free_symbols, key=str):
                    place = f"result of {node.name}" if source is None else f"dimension {axis} of {source}"
                    limits = captured.ranges.get(symbol) or size.node.shape_env.bound_sympy(symbol)
                    # What depends on data may have no limit at all.
                    least, most = (int(one) if one.is_Integer else None for one in (limits.lower, limits.upper))
                    new = Symbol(str(symbol), str(symbol), least, most, (place,))
                    known = found.setdefault(str(symbol), new)
                    if source is not None and place not in known.places:
                        known = replace(known, places=(*known.places, place))
                    if size.node.expr == symbol and known.name == known.in_graph:
                        known = replace(known, name=names.get((source, axis), known.name))
                    found[str(symbol)] = known
    return tuple(found.values())


def _open_sizes(node: fx.Node) -> list[tuple[int, torch.SymInt]]:
    value = node.meta.get("val", node.meta.get("example_value"))
    if isinstance(value, torch.Tensor):
        sizes: list[Any] = list(value.shape)
        return [(axis, size) for axis, size in enumerate(sizes) if isinstance(size, torch.SymInt)]
    if isinstance(value, torch.SymInt) and node.op != "placeholder":
        return [(0, value)]
    return []


def guards_of_export(captured: Captured, found: tuple[Symbol, ...]) -> Iterator[Guard]:
    """What an exported graph takes for granted about its inputs: fixed values and sizes, and the ranges of the others.

    Args:
        captured: with the method `export`.
        found: the symbols in its sizes.
    """
    (graph,) = captured.partitions
    names = {one.in_graph: one.name for one in found}
    for one, value in zip(graph.inputs, graph.example_inputs or (), strict=True):
        if one.kind == "input" and one.shape is not None:
            sizes = ", ".join(names.get(str(size), str(size)) for size in one.shape)
            yield Guard(f"{one.source}.size() == [{sizes}]", "SIZE")
        elif one.kind == "input":
            yield Guard(f"{one.source} == {value!r}", "CONSTANT")
    for symbol in found:
        lower = "" if symbol.minimum is None else f"{symbol.minimum} <= "
        upper = "" if symbol.maximum is None else f" <= {symbol.maximum}"
        if lower or upper:
            yield Guard(f"{lower}{symbol.name}{upper}", "RANGE")

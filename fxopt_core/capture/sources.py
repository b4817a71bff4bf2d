"""What the placeholders of a graph stand for, in the user's own terms."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from fxopt_core.capture.captured_graph import GraphInput

_CONTAINER = re.compile(r"(?:\.|\[')_(?:modules|parameters|buffers)(?:'\])?\['([^']+)'\]")
_SCOPE = re.compile(r"\b[LG]\['([^']+)'\]")
_BUILTIN = re.compile(r"\b__builtins_dict___\d+\['(\w+)'\]")
_MODULE = re.compile(r"\b__import_(\w+)")
_STACK_VALUE = re.compile(r"\b___stack(\d+)\b")


def readable_source(source: str) -> str:
    """Dynamo's name of a value as a Python user would write it.

    `L['self']._modules['fc']._parameters['weight']` gives `self.fc.weight`, `L['x']` gives `x`.
    A value that was on Python's stack when a graph broke has no name: `___stack0` gives
    `value 0 before the graph break`.
    """
    text = _SCOPE.sub(r"\1", _CONTAINER.sub(r".\1", source))
    text = _MODULE.sub(lambda match: match[1].replace("_dot_", "."), _BUILTIN.sub(r"\1", text))
    return _STACK_VALUE.sub(r"value \1 before the graph break", text)


def dynamo_inputs(graph_module: fx.GraphModule) -> tuple[GraphInput, ...]:
    """What each placeholder of a graph fresh from Dynamo stands for.

    Dynamo lifts parameters and buffers to inputs and notes in `node.meta["grapharg"]` where each value comes
    from. It drops this note once the backend has returned, so it has to be read inside the backend.
    """
    nodes = graph_module.graph.find_nodes(op="placeholder")
    values = [node.meta.get("example_value") for node in nodes]
    return describe_inputs(graph_module, values, [_source_of(node) for node in nodes])


def describe_inputs(
    graph_module: fx.GraphModule,
    values: Sequence[Any],
    sources: Sequence[str] = (),
    kinds: Sequence[str | None] = (),
) -> tuple[GraphInput, ...]:
    """What each placeholder of a graph stands for, in order.

    Args:
        graph_module: the graph.
        values: one for each placeholder; fake ones will do.
        sources: the names of these values for the user; without them, the placeholders' own.
        kinds: as in `GraphInput`; without them, what sources and values tell.
    """
    nodes = graph_module.graph.find_nodes(op="placeholder")
    sources = sources or [str(node.target) for node in nodes]
    described = zip(nodes, sources, values, kinds or [None] * len(nodes), strict=True)
    return tuple(describe_input(node.name, source, value, kind) for node, source, value, kind in described)


def _source_of(node: fx.Node) -> str:
    argument = node.meta.get("grapharg")
    source = getattr(argument, "source", None)
    if source is None:
        return str(node.target)
    # A method up to torch 2.11, a property since.
    name = source.name() if callable(source.name) else source.name
    return name or str(node.target)


def describe_input(name: str, source: str, value: Any, kind: str | None = None) -> GraphInput:
    """What the input `name` of a graph stands for, where `source` is its value's name for the user."""
    if isinstance(value, torch.Tensor):
        shape: tuple[int | str, ...] | None = tuple(
            size if isinstance(size, int) else str(size) for size in value.shape
        )
        dtype = str(value.dtype).removeprefix("torch.")
    else:
        shape, dtype = None, type(value).__name__
    return GraphInput(name, readable_source(source), kind or _kind(source, value), shape, dtype)


def _kind(source: str, value: Any) -> str:
    if isinstance(value, torch.nn.Parameter) or "._parameters[" in source:
        return "parameter"
    if "._buffers[" in source:
        return "buffer"
    if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
        return "size"
    return "input"

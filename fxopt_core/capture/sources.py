"""What the placeholders of a graph stand for, in the user's own terms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from fxopt_core.capture.partition import GraphInput

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
    return tuple(
        describe_input(node.name, _source_of(node), node.meta.get("example_value"))
        for node in placeholders(graph_module.graph)
    )


def placeholders(graph: fx.Graph) -> Iterator[fx.Node]:
    """The placeholders of a graph, in order."""
    return (node for node in graph.nodes if node.op == "placeholder")


def describe_inputs(
    graph_module: fx.GraphModule, values: Sequence[Any], sources: Sequence[str], kinds: Sequence[str]
) -> tuple[GraphInput, ...]:
    """Inputs of which source and kind are known, one for each placeholder, in order."""
    nodes = list(placeholders(graph_module.graph))
    return tuple(
        describe_input(node.name, source, value, kind)
        for node, source, value, kind in zip(nodes, sources, values, kinds, strict=True)
    )


def plain_inputs(graph_module: fx.GraphModule, values: Sequence[Any]) -> tuple[GraphInput, ...]:
    """What each placeholder stands for in a graph of which no more is known than the placeholders' names."""
    names = [str(node.target) for node in placeholders(graph_module.graph)]
    kinds = [_kind(name, value) for name, value in zip(names, values, strict=True)]
    return describe_inputs(graph_module, values, names, kinds)


def renamed_inputs(
    graph_module: fx.GraphModule, values: Sequence[Any], before: Sequence[GraphInput]
) -> tuple[GraphInput, ...]:
    """Inputs of a graph that a compiler stage made of a Dynamo graph with the inputs `before`.

    Where the stage has changed the number of inputs, the placeholders' own names are all that is known.
    """
    if len(list(placeholders(graph_module.graph))) != len(before):
        return plain_inputs(graph_module, values)
    return describe_inputs(graph_module, values, [old.source for old in before], [old.kind for old in before])


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
    if isinstance(value, torch.nn.Parameter) or "_parameters[" in source:
        return "parameter"
    if "_buffers[" in source:
        return "buffer"
    if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
        return "size"
    return "input"

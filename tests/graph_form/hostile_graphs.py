"""A small valid graph, and ways to change its document that decoding has to refuse."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from canary import watching
from torch import fx, nn

from autograder.exchange.graph_form import EncodedGraph, GraphFormatError, Limits, decode, encode


def base() -> EncodedGraph:
    """x -> relu -> add_ -> linear -> mul with a buffer, with an attribute read and a signature-free output."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    relu = graph.call_function(torch.relu, (x,))
    added = graph.call_method("add_", (relu, 1), {"alpha": 2})
    linear = graph.call_module("linear", (added,))
    shape = graph.call_function(getattr, (linear, "shape"))
    scaled = graph.call_function(torch.mul, (linear, graph.get_attr("scale")))
    graph.output((scaled, shape, "text"))
    return encode(fx.GraphModule({"linear": nn.Linear(3, 3), "scale": torch.rand(3)}, graph))


NODES = ("x", "relu", "add_", "linear", "getattr_1", "scale", "mul", "output")


def node(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The node `name` of the base document."""
    nodes = document["modules"][-1]["nodes"]
    return next(entry for entry in nodes if entry["name"] == name)


def refused(change: Callable[[dict[str, Any], dict[str, torch.Tensor]], Any], match: str, **limits: int) -> None:
    """Apply `change` to a copy of the base graph; decoding it has to fail with `match`, reaching nothing."""
    encoded = base()
    document, tensors = copy.deepcopy(encoded.document), dict(encoded.tensors)
    change(document, tensors)
    with watching() as events, pytest.raises(GraphFormatError, match=match):
        decode(EncodedGraph(document, tensors), limits=Limits(**limits))
    assert events == []


def assign(name: str, key: str, value: Any) -> Callable[[dict[str, Any], dict[str, torch.Tensor]], None]:
    """A change: the entry `key` of the node `name` becomes `value`."""

    def change(document: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        node(document, name)[key] = value

    return change


def rename(old: str, new: str) -> Callable[[dict[str, Any], dict[str, torch.Tensor]], None]:
    return assign(old, "name", new)

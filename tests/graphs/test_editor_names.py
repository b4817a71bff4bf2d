"""New nodes are named as `create_node` itself names them, however often their names were asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import fx

from fxopt_core.passes import GraphEditor


def _named(name: str) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        return x

    function.__name__ = name
    return function


TARGETS = [
    ("call_function", torch.relu),
    ("call_function", torch.ops.aten.log1p.default),
    ("call_function", torch.ops.aten.add_.Tensor),
    ("call_function", lambda x: x),
    *(("call_function", _named(name)) for name in ("maxPool2d", "conv_2", "2d", "if", "", "<>", "größe", "a..b__c")),
    ("call_method", "__add__"),
    ("call_method", "to"),
    ("get_attr", "layers.0.weight"),
    ("call_module", "0.Linear"),
]


def _graph() -> tuple[fx.Graph, fx.Node, fx.Node]:
    graph = fx.Graph()
    x = graph.placeholder("x")
    return graph, x, graph.output(x)


@pytest.mark.parametrize(("op", "target"), TARGETS)
def test_a_new_node_is_named_as_torch_names_it(op: str, target: Any) -> None:
    graph, x, output = _graph()
    with graph.inserting_before(output):
        expected = [graph.create_node(op, target, (x,) if op.startswith("call") else ()).name for _ in range(3)]
    editor = GraphEditor(fx.GraphModule(torch.nn.Module(), _graph()[0]))
    x, output = editor.graph.nodes
    with editor.rewrite("test", output):
        made = [editor.insert(op, target, (x,) if op.startswith("call") else (), like=output) for _ in range(3)]
    assert [node.name for node in made] == expected
    assert len({*expected}) == 3

"""Misuse of the editor raises at once, and leaves the graph as it was."""

from __future__ import annotations

import pytest
import torch
from torch import fx

from fxopt_core.passes import GraphEditor


def steps(x: torch.Tensor) -> torch.Tensor:
    return torch.cos(torch.sin(torch.exp(x)))


@pytest.fixture
def editor() -> GraphEditor:
    return GraphEditor(fx.symbolic_trace(steps))


def named(editor: GraphEditor, name: str) -> fx.Node:
    return next(node for node in editor.graph.nodes if node.name == name)


def test_a_node_is_not_made_from_an_erased_one(editor: GraphEditor) -> None:
    x, exp, sin, cos = (named(editor, name) for name in ("x", "exp", "sin", "cos"))
    with editor.rewrite("test", sin):
        editor.replace(sin, exp)
        before = str(editor.graph)
        with pytest.raises(ValueError, match="sin was erased"):
            editor.call(torch.tanh, sin, like=cos)
        with pytest.raises(ValueError, match="sin was erased"):
            editor.call(torch.tanh, x, like=sin)
        with pytest.raises(ValueError, match="sin was erased"):
            editor.change(cos, args=([sin],))
        with pytest.raises(ValueError, match="sin was erased"):
            editor.replace(cos, sin)
        with pytest.raises(ValueError, match="sin was erased"):
            editor.erase(sin)
    assert str(editor.graph) == before
    editor.finish()


def test_a_node_reads_what_comes_before_it_in_its_own_graph(editor: GraphEditor) -> None:
    exp, sin, cos = (named(editor, name) for name in ("exp", "sin", "cos"))
    with editor.rewrite("test", sin):
        with pytest.raises(ValueError, match="cos is computed after the place"):
            editor.call(torch.tanh, cos, like=sin)
        with pytest.raises(ValueError, match="cos is computed after the place"):
            editor.change(exp, args=(cos,))
        with pytest.raises(ValueError, match="another graph"):
            editor.call(torch.tanh, named(GraphEditor(fx.symbolic_trace(steps)), "exp"), like=cos)
        late = editor.call(torch.tanh, exp, like=cos)
    with editor.rewrite("test", exp), pytest.raises(ValueError, match="tanh reads exp, and cannot take its place"):
        editor.replace(exp, late)
    editor.graph.lint()


def test_what_is_no_node_is_named(editor: GraphEditor) -> None:
    sin, cos = (named(editor, name) for name in ("sin", "cos"))
    before = str(editor.graph)
    expected = "is given where a node of the graph is expected. Make one with call, insert or constant."
    with editor.rewrite("test", sin):
        with pytest.raises(TypeError, match=f"^None {expected}$"):
            editor.replace(sin, None)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=f"^0.5 {expected}$"):
            editor.replace(sin, 0.5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=f"^'sin' {expected}$"):
            editor.erase("sin")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=f"^None {expected}$"):
            editor.call(torch.tanh, cos, like=None)  # type: ignore[arg-type]
    assert str(editor.graph) == before

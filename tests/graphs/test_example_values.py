"""Example values of inserted nodes are those that a computation without data gives, also when it is not made again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.example_values import kind_of

aten = torch.ops.aten


def chain(*values: torch.Tensor) -> tuple[GraphEditor, list[fx.Node], FakeTensorMode]:
    """A graph that takes the sine of each input, with example values."""
    mode = FakeTensorMode()
    graph = fx.Graph()
    inputs = [graph.placeholder(f"x{number}") for number in range(len(values))]
    sines = [graph.call_function(aten.sin.default, (source,)) for source in inputs]
    graph.output(tuple(sines))
    for source, sine, value in zip(inputs, sines, values, strict=True):
        source.meta["val"] = mode.from_tensor(value)
        with mode:
            sine.meta["val"] = aten.sin.default(source.meta["val"])
    return GraphEditor(fx.GraphModule(torch.nn.Module(), graph)), sines, mode


def replaced(editor: GraphEditor, node: fx.Node, target: Any, *more: Any) -> fx.Node:
    with editor.rewrite("test", node):
        new = editor.call(target, node.args[0], *more, like=node)
        editor.replace(node, new)
    return new


@pytest.mark.parametrize(
    "second",
    [
        torch.randn(3, 4),
        torch.randn(4, 3),
        torch.randn(4, 3).t(),
        torch.randn(3, 4, dtype=torch.float64),
        torch.randn(12)[::2],
        torch.ones(3, 4, dtype=torch.int64),
        torch.randn(3, 4, dtype=torch.complex64).conj(),
    ],
    ids=["same", "shape", "strides", "dtype", "slice", "integers", "conjugate"],
)
@pytest.mark.parametrize("target", [aten.cos.default, aten.eq.Scalar, aten.t.default, aten.abs.default])
def test_a_second_call_gives_what_a_computation_gives(second: torch.Tensor, target: Any) -> None:
    more = (0,) if target is aten.eq.Scalar else ()
    editor, sines, mode = chain(torch.randn(3, 4), second)
    for sine in sines:
        new = replaced(editor, sine, target, *more)
        with mode:
            expected = target(new.args[0].meta["val"], *more)
        found = new.meta["val"]
        assert (found.dtype, found.shape, found.stride()) == (expected.dtype, expected.shape, expected.stride())
        assert found.is_conj() == expected.is_conj()


def test_a_known_result_is_taken_over_and_not_computed_again() -> None:
    editor, sines, _ = chain(torch.randn(3, 4), torch.randn(3, 4))
    calls = 0

    class Counting(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            nonlocal calls
            calls += 1
            return function(*args, **(kwargs or {}))

    old = sines[1].meta["val"]
    with Counting():
        replaced(editor, sines[0], aten.cos.default)
        first = calls
        new = replaced(editor, sines[1], aten.cos.default)
    assert first > 0
    assert calls == first
    assert new.meta["val"] is old


def test_literals_tell_calls_apart() -> None:
    editor, sines, _ = chain(torch.randn(3, 4), torch.randn(3, 4))
    replaced(editor, sines[0], aten.cumsum.default, 0)
    second = replaced(editor, sines[1], aten.sum.dim_IntList, [1])
    assert tuple(second.meta["val"].shape) == (3,)


def test_of_a_conjugate_or_sparse_value_no_kind_is_known() -> None:
    assert kind_of(torch.randn(2)) == kind_of(torch.ones(2))
    assert kind_of(torch.randn(2, dtype=torch.complex64).conj()) is None
    assert kind_of(torch.ones(2).to_sparse()) is None
    assert kind_of(3) is None


def test_symbolic_sizes_are_never_compared() -> None:
    """In the shape, in a stride, or only in where the tensor starts: comparing them would make assumptions."""
    mode = FakeTensorMode(shape_env=ShapeEnv())
    wide = mode.from_tensor(
        torch.zeros(3, 5), symbolic_context=StatelessSymbolicContext([DimDynamic.STATIC, DimDynamic.DYNAMIC])
    )
    size = wide.shape[1]
    assert isinstance(size, torch.SymInt)
    with mode:
        known = torch.zeros(3, 2)
        for value in (wide, wide[:, :2], known.as_strided((2,), (1,), size)):
            assert kind_of(value) is None
    assert kind_of(known) is not None

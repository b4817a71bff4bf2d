"""Views, copies and casts that cancel go, and those that somebody can tell from what was there before stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from passes.programs import aten, operations
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from fxopt_core.capture import capture
from fxopt_core.graphs.cloning import clone_graph_module
from fxopt_core.optimizer import GraphOptimizer
from fxopt_core.passes import disabled, run_pass
from fxopt_core.passes.layout_operations import holds_every
from fxopt_core.verification import check_equivalence

DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
)  # fmt: skip


def with_values(build: Callable[[fx.Graph], Any], *inputs: torch.Tensor) -> fx.GraphModule:
    """The graph that `build` writes, with what a capture knows of its values."""
    graph = fx.Graph()
    graph.output(build(graph))
    values: dict[fx.Node, Any] = {}
    with FakeTensorMode() as mode, torch.enable_grad():  # puts back what the graph switches
        for node, tensor in zip(graph.find_nodes(op="placeholder"), inputs, strict=True):
            values[node] = mode.from_tensor(tensor)
        for node in graph.nodes:
            args, kwargs = fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
            if node.op == "call_function":
                values[node] = node.target(*args, **kwargs)
            elif node.op == "call_method":
                values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
            value = values.get(node)
            # Another object, so that what is written in place later does not change it.
            node.meta["val"] = value.detach() if isinstance(value, torch.Tensor) else value
    return fx.GraphModule(nn.Module(), graph)


def left(function: Callable[..., Any], x: torch.Tensor) -> list[str]:
    """What is left of a function of a new tensor, after the pass and dead code; everything observable stays."""
    whole = capture(lambda x: function(torch.sin(x)).exp(), (x,), "export").module
    for node in list(whole.graph.nodes):
        if node.target is aten._assert_tensor_metadata.default:
            whole.graph.erase_node(node)  # keeps casts that nobody else uses
    whole.recompile()
    module = clone_graph_module(whole)
    run_pass("redundant_layout", module)
    assert not run_pass("redundant_layout", module).changed
    run_pass("dead_code", module)
    module.recompile()
    equivalence = check_equivalence(whole, module, (x,))
    assert equivalence, equivalence
    names = [name.partition(".")[0] for name in operations(module) if not name.startswith("_")]
    assert (names[0], names[-1]) == ("sin", "exp")
    return names[1:-1]


CANCEL: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], list[str]]] = {
    "t t": (lambda x: x.t().t(), []),
    "transpose transpose": (lambda x: x.transpose(0, 1).transpose(-1, -2), []),
    "three transposes": (lambda x: x.t().t().t(), ["t"]),
    "permute to itself": (lambda x: x.permute(0, 1), []),
    "permute permute, inverse": (lambda x: x[None].permute(2, 0, 1).permute(1, 2, 0), ["unsqueeze"]),
    "permute permute": (lambda x: x[None].permute(2, 0, 1).permute(2, 0, 1), ["unsqueeze", "permute"]),
    "t of permute": (lambda x: x.view(2, 2, 6).permute(2, 0, 1).transpose(0, 2), ["view", "permute"]),
    "four turns": (lambda x: x.view(2, 2, 6).permute(2, 0, 1).mT.permute(1, 0, 2).mT, ["view", "permute"]),
    "view view": (lambda x: x.view(2, 12).view(3, 8), ["view"]),
    "view there and back": (lambda x: x.view(2, 12).view(4, 6), []),
    "reshape reshape": (lambda x: x.t().reshape(2, 12).reshape(3, 8), ["t", "reshape"]),
    "view of reshape": (lambda x: x.reshape(2, 12).view(-1), ["view"]),
    "flatten of unsqueeze": (lambda x: x.unsqueeze(1).flatten(), ["flatten"]),
    "unsqueeze squeeze": (lambda x: x.unsqueeze(1).squeeze(1), []),
    "squeeze unsqueeze": (lambda x: x[:1].squeeze(0).unsqueeze(0), ["slice"]),
    "expand to its own shape": (lambda x: x.expand(4, -1), []),
    "expand expand": (lambda x: x[None].expand(2, 4, 6).expand(2, 4, 6), ["unsqueeze", "expand"]),
    "a whole slice": (lambda x: x[:], []),
    "one view by two ways": (lambda x: x[1:3][1] + x[2], ["slice", "select", "add"]),
    "contiguous": (lambda x: x.contiguous(), []),
    "contiguous of a transpose": (lambda x: x.t().contiguous(), ["t", "contiguous"]),
    "contiguous twice": (lambda x: x.t().contiguous().contiguous(), ["t", "contiguous"]),
    "clone": (lambda x: x.clone(), []),
    "clone of a transpose": (lambda x: x.t().clone(), ["t"]),
    "clone of clone": (lambda x: x.clone().clone(), []),
    "to its own dtype": (lambda x: x.to(torch.float32), []),
    "float of float": (lambda x: x.float().float(), []),
    "to float64 and back": (lambda x: x.double().float(), []),
    "to float64, another shape, and back": (lambda x: x.double().view(-1).float().view(4, 6), []),
    "to float16 and back": (lambda x: x.half().float(), ["to", "to"]),
    "to float16 through float64": (lambda x: x.double().half(), ["to"]),
    "bool through float": (lambda x: (x > 0).float().bool().float(), ["gt", "to"]),
    "detach of detach": (lambda x: x.detach().detach() + x, ["detach", "add"]),
    "detach of integers": (lambda x: x.long().detach(), ["to"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CANCEL)
def test_what_cancels_goes(name: str) -> None:
    function, wanted = CANCEL[name]
    x = torch.randn(4, 6, requires_grad=True)
    assert left(function, x) == wanted


@st.composite
def layouts(draw: st.DrawFn) -> tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]:
    """A sequence of layout operations on a small tensor of any strides."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=2, max_size=4))
    x = torch.randn(sizes).permute(draw(st.permutations(range(len(sizes)))))
    steps: list[Callable[[torch.Tensor], torch.Tensor]] = []
    value = x
    for _ in range(draw(st.integers(1, 8))):
        order = draw(st.permutations(range(value.dim())))
        one, other = draw(st.integers(0, value.dim() - 1)), draw(st.integers(-value.dim(), -1))
        shape = draw(st.permutations(value.shape))
        steps.append(draw(st.sampled_from((
            lambda y, order=order: y.permute(order),
            lambda y, one=one, other=other: y.transpose(one, other),
            lambda y, shape=shape: y.reshape(shape),
            lambda y: y.contiguous(),
            lambda y: y.clone(),
            lambda y, one=one: y.unsqueeze(one),
            lambda y: y.squeeze() if y.squeeze().dim() > 1 else y,
            lambda y: y.double(), lambda y: y.float(), lambda y: y.half(), lambda y: y.to(torch.float32),
            lambda y: y.flatten(0, 1).unsqueeze(0), lambda y: y.detach(), lambda y: y * 2,
            lambda y, shape=value.shape: y.expand(shape), lambda y: y.narrow(0, 0, 1), lambda y: y[-1:],
            lambda y: y.to(y.dtype, copy=True),
        ))))  # fmt: skip
        value = steps[-1](value)

    def function(x: torch.Tensor) -> torch.Tensor:
        for step in steps:
            x = step(x)
        return x

    return function, x


@settings(max_examples=60, deadline=None, derandomize=True)
@given(layouts(), st.booleans())
def test_any_sequence_gives_the_same(layout: tuple[Callable[..., Any], torch.Tensor], returned: bool) -> None:
    function, x = layout
    x.requires_grad_()
    if returned:
        whole = capture(lambda x: (function(x), x), (x,), "export").module
    else:
        whole = capture(lambda x: torch.sin(function(torch.exp(x))), (x,), "export").module
    module = clone_graph_module(whole)
    run_pass("redundant_layout", module)
    equivalence = check_equivalence(whole, module, (x,))
    assert equivalence, f"{equivalence}\n{whole.graph}\n{module.graph}"
    assert not run_pass("redundant_layout", module).changed


def test_what_was_itself_replaced_stands_for_nothing() -> None:
    """Of one element the strides differ between a view and its equal elements, so each walk has a first value."""

    def function(x: torch.Tensor) -> torch.Tensor:
        value = torch.exp(x)
        for _ in range(2):
            value = value.flatten(0, 1).unsqueeze(0)
        return torch.sin(value.permute(0, 2, 1))

    x = torch.rand(1, 1, 1, requires_grad=True)
    whole = capture(function, (x,), "export").module
    module = clone_graph_module(whole)
    run_pass("redundant_layout", module)
    assert check_equivalence(whole, module, (x,))


@pytest.mark.parametrize("narrow", DTYPES, ids=str)
@pytest.mark.parametrize("wide", DTYPES, ids=str)
def test_a_dtype_holds_another_when_its_limits_and_digits_come_back(wide: torch.dtype, narrow: torch.dtype) -> None:
    if narrow == torch.bool:
        values = torch.tensor([True, False])
    elif narrow.is_floating_point:
        limits = torch.finfo(narrow)
        smallest = limits.tiny * limits.eps
        values = torch.tensor([limits.max, limits.min, limits.tiny, smallest, -smallest, 1 + limits.eps, -0.0],
                              dtype=torch.float64).to(narrow)  # fmt: skip
    else:
        bounds = torch.iinfo(narrow)
        values = torch.tensor([bounds.max, bounds.max - 1, bounds.min, bounds.min + 1], dtype=narrow)
    back = values.to(wide).to(narrow)
    same = torch.equal(back, values) and torch.equal(back.double().signbit(), values.double().signbit())
    # Integers that wrap around in a dtype of the same size come back, but are others there.
    other_sign = not (wide.is_floating_point or narrow.is_floating_point or wide == torch.bool) and not torch.equal(
        values.to(wide).double(), values.double()
    )
    # A smaller float rounds the largest integers to numbers that are out of range.
    assert holds_every(wide, narrow) == (same and not other_sign)


def placeholder(graph: fx.Graph, name: str) -> fx.Node:
    return graph.call_method("sin", (graph.placeholder(name),))


def unknown_layout(graph: fx.Graph) -> Any:
    own = graph.call_method("t", (placeholder(graph, "x"),))
    return graph.call_method("view", (graph.call_method("contiguous", (own,)), -1))


def real_cast(graph: fx.Graph) -> Any:
    return graph.call_method("double", (placeholder(graph, "x"),))


def looked_at_by_position(graph: fx.Graph) -> Any:
    row = graph.call_function(aten.select.int, (placeholder(graph, "x"), 0, 1))
    own = graph.call_function(aten.clone.default, (row,))
    return graph.call_method("exp", (graph.call_function(torch.as_strided, (own, (2,), (1,), 0)),))


def copy_is_written(graph: fx.Graph) -> Any:
    x = placeholder(graph, "x")
    own = graph.call_function(aten.clone.default, (x,))
    graph.call_function(aten.add_.Tensor, (own, 1))
    return graph.call_function(aten.sub.Tensor, (x, own))


def source_is_written(graph: fx.Graph) -> Any:
    x = placeholder(graph, "x")
    own = graph.call_function(aten.clone.default, (x,))
    graph.call_function(aten.add_.Tensor, (x, 1))
    return graph.call_function(aten.sub.Tensor, (x, own))


def view_is_turned_in_place(graph: fx.Graph) -> Any:
    x = placeholder(graph, "x")
    same = graph.call_function(aten.alias.default, (x,))
    graph.call_function(aten.t_.default, (same,))
    return graph.call_method("exp", (x,))


def copy_between_is_written(graph: fx.Graph) -> Any:
    x = placeholder(graph, "x")
    own = graph.call_function(aten.clone.default, (x,))
    graph.call_function(aten.add_.Tensor, (own, 1))
    return [
        graph.call_function(aten._to_copy.default, (own,), {"dtype": torch.float64}),
        graph.call_method("exp", (x,)),
    ]


def input_is_returned(graph: fx.Graph) -> Any:
    return graph.call_function(aten.clone.default, (graph.placeholder("x"),))


def view_of_an_input_is_returned(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    return graph.call_function(aten.alias.default, (x,))


def view_is_handed_on_and_returned(graph: fx.Graph) -> Any:
    """A dropout that is off returns what it gets, the very object."""
    view = graph.call_method("view", (graph.placeholder("x"), 2, -1))
    return graph.call_function(functional.dropout, (view,), {"training": False})


def one_view_twice(graph: fx.Graph) -> Any:
    x = placeholder(graph, "x")
    return [graph.call_method("t", (x,)), graph.call_method("permute", (x, 1, 0))]


def copy_without_gradients(graph: fx.Graph) -> Any:
    x = placeholder(graph, "x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    own = graph.call_method("clone", (x,))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    return graph.call_method("exp", (own,))


def view_without_gradients(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    turned = graph.call_method("t", (x,))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    return graph.call_method("exp", (graph.call_method("t", (turned,)),))


def view_without_gradients_is_handed_on(graph: fx.Graph) -> Any:
    """The view asks for no gradients, nor does what hands it on; the input does."""
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    view = graph.call_method("view", (x, 2, -1))
    handed_on = graph.call_function(functional.dropout, (view,), {"training": False})
    graph.call_function(torch._C._set_grad_enabled, (True,))
    return graph.call_method("exp", (handed_on,))


def view_of_what_is_handed_on_without_gradients(graph: fx.Graph) -> Any:
    """What stands before the view is the input itself, though it comes from the same mode."""
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    handed_on = graph.call_function(functional.dropout, (x,), {"training": False})
    view = graph.call_method("view", (handed_on, 2, -1))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    return graph.call_method("exp", (view,))


def cast_without_gradients(graph: fx.Graph) -> Any:
    x = placeholder(graph, "x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    wide = graph.call_method("view", (x, -1))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    return graph.call_method("exp", (graph.call_method("view", (wide, 2, -1)),))


def turns_without_gradients(graph: fx.Graph) -> Any:
    x = graph.call_method("unsqueeze", (placeholder(graph, "x"), 0))
    graph.call_function(torch._C._set_grad_enabled, (False,))
    turned = graph.call_method("permute", (x, 1, 2, 0))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    return graph.call_method("exp", (graph.call_method("permute", (turned, 1, 0, 2)),))


def rounded(graph: fx.Graph) -> Any:
    half = graph.call_method("half", (placeholder(graph, "x"),))
    return graph.call_method("exp", (graph.call_method("float", (half,)),))


def rounded_on_the_way(graph: fx.Graph) -> Any:
    half = graph.call_function(aten._to_copy.default, (placeholder(graph, "x"),), {"dtype": torch.float16})
    return graph.call_function(aten._to_copy.default, (half,), {"dtype": torch.bool})


def stopped(graph: fx.Graph) -> Any:
    x = placeholder(graph, "x")
    still = graph.call_method("detach", (x,))
    return graph.call_function(torch.mul, (x, still))


def stopped_on_the_way(graph: fx.Graph) -> Any:
    x = placeholder(graph, "x")
    still = graph.call_method("view", (graph.call_method("detach", (x,)), -1))
    return graph.call_function(torch.mul, (graph.call_method("reshape", (x, -1)), still))


def copy_is_asked_for(graph: fx.Graph) -> Any:
    x = placeholder(graph, "x")
    own = graph.call_method("to", (x, torch.float32), {"copy": True})
    graph.call_method("add_", (own, 1))
    return graph.call_function(torch.sub, (x, own))


X = torch.tensor([[0.1, -0.7, 2.3], [3.1, 0.0, 1e-9]], requires_grad=True)
GIVEN = {"x": X}

REFUSED: dict[Callable[[fx.Graph], Any], str] = {
    unknown_layout: "values are known",
    real_cast: "same tensor",
    looked_at_by_position: "same place in storage",
    copy_is_written: "nothing is written",
    source_is_written: "nothing is written",
    view_is_turned_in_place: "nothing is written",
    copy_between_is_written: "nothing is written",
    input_is_returned: "returned values are new",
    view_of_an_input_is_returned: "returned views are two objects",
    view_is_handed_on_and_returned: "returned views are two objects",
    one_view_twice: "returned views are two objects",
    copy_without_gradients: "same mode",
    view_without_gradients: "same mode",
    cast_without_gradients: "same mode",
    view_without_gradients_is_handed_on: "same mode",
    view_of_what_is_handed_on_without_gradients: "same mode",
    turns_without_gradients: "same mode",
    rounded: "casts lose nothing",
    rounded_on_the_way: "casts lose nothing",
    stopped: "gradients stop where they stopped",
    stopped_on_the_way: "gradients stop where they stopped",
    copy_is_asked_for: "a copy is asked for",
}


@pytest.mark.parametrize("build", REFUSED, ids=lambda build: build.__name__)
def test_what_can_be_told_apart_stays_and_its_check_is_needed(build: Callable[[fx.Graph], Any]) -> None:
    graph = fx.Graph()
    build(graph)
    inputs = tuple(GIVEN[node.name] for node in graph.nodes if node.op == "placeholder")
    original = with_values(build, *inputs)
    if build is unknown_layout:
        for node in original.graph.nodes:
            node.meta.clear()
    module = clone_graph_module(original)
    result = run_pass("redundant_layout", module)
    assert str(module.graph) == str(original.graph)
    assert result.refusals or build is real_cast, "a cast that changes something is nothing to refuse"
    with disabled(f"redundant_layout: {REFUSED[build]}"):
        assert run_pass("redundant_layout", module).changed
    assert not check_equivalence(original, module, inputs, adversarial=False)


def test_equal_exchanges_cancel_without_knowing_shapes() -> None:
    module = fx.symbolic_trace(lambda x: x.t().t().transpose(0, 1).transpose(0, 1).transpose(0, 1).exp())
    run_pass("redundant_layout", module)
    run_pass("dead_code", module)
    assert operations(module) == ["transpose", "exp"]
    module = fx.symbolic_trace(lambda x: x.transpose(dim0=0, dim1=1).transpose(dim0=1, dim1=2).exp())
    assert not run_pass("redundant_layout", module).changed


def test_an_exchange_that_became_a_permutation_of_something_else_is_not_undone() -> None:
    """Of the last exchange nothing is known, as of one that somebody else's pass has put in."""

    def build(graph: fx.Graph) -> Any:
        x = placeholder(graph, "x")
        whole = graph.call_method("unsqueeze", (x, 0))
        for first, second in ((0, 1), (1, 2), (1, 2)):
            whole = graph.call_method("transpose", (whole, first, second))
        return graph.call_method("exp", (whole,))

    original = with_values(build, X)
    *_, last, _, _ = original.graph.nodes
    last.meta.clear()
    module = clone_graph_module(original)
    result = run_pass("redundant_layout", module)
    assert [rewrite.rule for rewrite in result.rewrites] == ["redundant_layout/transpose(transpose(x))"]
    assert check_equivalence(original, module, (X,))


def test_two_permutations_given_by_name_are_one() -> None:
    def build(graph: fx.Graph) -> Any:
        whole = graph.call_method("unsqueeze", (placeholder(graph, "x"), 0))
        turned = graph.call_method("transpose", (whole,), {"dim0": 0, "dim1": -1})
        return graph.call_method("exp", (graph.call_method("permute", (turned,), {"dims": (1, 0, 2)}),))

    original = with_values(build, X)
    module = clone_graph_module(original)
    run_pass("redundant_layout", module)
    (turn,) = module.graph.find_nodes(op="call_function", target=torch.permute)
    assert turn.args[1:] == ([1, 2, 0],)
    assert not turn.kwargs
    assert check_equivalence(original, module, (X,))


def test_what_is_detached_and_handed_on_stays() -> None:
    """Found by fuzzing: what hands it on asks for no gradients either, and the input does."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_function(torch._C._set_grad_enabled, (False,))
        still = graph.call_method("detach", (x,))
        handed_on = graph.call_function(functional.dropout, (still,), {"training": False})
        graph.call_function(torch._C._set_grad_enabled, (True,))
        return graph.call_method("exp", (handed_on,))

    original = with_values(build, X)
    module = clone_graph_module(original)
    assert not run_pass("redundant_layout", module).changed
    assert check_equivalence(original, module, (X,))


def test_under_no_grad_detach_is_nothing() -> None:
    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_function(torch._C._set_grad_enabled, (False,))
        result = graph.call_method("exp", (graph.call_method("detach", (x,)),))
        graph.call_function(torch._C._set_grad_enabled, (True,))
        return result

    original = with_values(build, X)
    module = clone_graph_module(original)
    run_pass("redundant_layout", module)
    assert "detach" not in operations(module)
    assert check_equivalence(original, module, (X,))


def test_what_returns_its_argument_goes_even_where_it_is_written_and_returned() -> None:
    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        same = graph.call_method("contiguous", (graph.call_method("float", (x,)),))
        graph.call_method("add_", (same, 1))
        return same

    inputs = (X.detach(),)
    original = with_values(build, *inputs)
    module = clone_graph_module(original)
    run_pass("redundant_layout", module)
    assert operations(module) == ["add_"]
    assert check_equivalence(original, module, inputs)


class TransposedKeys(nn.Module):
    """Attention over `[batch, length, heads, width]`, whose keys are transposed twice."""

    def forward(self, query: torch.Tensor, keys: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        query, keys, value = (each.transpose(1, 2) for each in (query, keys, value))
        weights = torch.softmax(query @ keys.transpose(-2, -1) * 0.35, -1)
        return (weights @ value).transpose(1, 2)


@pytest.mark.parametrize("fused", [False, True])
def test_keys_stay_transposed_so_that_inductor_knows_attention_by_them(fused: bool) -> None:
    """Found by `fxopt bench models`: with one permutation Inductor's own pattern fails on the shapes (DETR)."""
    inputs = tuple(torch.randn(2, 10, 6, 8) for _ in range(3))
    passes = ["attention_fusion", "redundant_layout"] if fused else ["redundant_layout"]
    result = GraphOptimizer(TransposedKeys(), inputs).optimize(passes)
    assert any("fused_attention" in node.name for node in result.module.graph.nodes) is fused
    assert any("compilers know attention by" in refusal.reason for _, refusal in result.report.refusals)
    with torch.no_grad():
        compiled = torch.compile(result.module)(*inputs)
        torch.testing.assert_close(compiled, TransposedKeys()(*inputs))

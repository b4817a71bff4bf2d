"""Whichever way a result is called, a call that its graph does not hold for is refused, and derivatives are right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import fx, nn

from fxopt_core import GraphOptimizer
from fxopt_core.capture import RefusedInputError, capture
from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.passes import OptimizationPass
from fxopt_core.passes.base import Analysis, Opportunity


@pytest.fixture(autouse=True)
def dynamo_as_new() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


TWICE = torch.ones(3)
BRANCHES: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]] = {
    "dtype": (
        lambda x: x * 2 if x.dtype == torch.float32 else x * 3,
        (torch.ones(3),),
        (torch.ones(3, dtype=torch.float64),),
    ),
    "size": (lambda x: x * 2 if x.shape[0] == 3 else x * 3, (torch.ones(3),), (torch.ones(4),)),
    "memory layout": (
        lambda x: x * 2 if x.is_contiguous() else x * 3,
        (torch.ones(3, 4),),
        (torch.ones(4, 3).t(),),
    ),
    "storage_offset": (
        lambda x: x * 2 if x.storage_offset() == 0 else x * 3,
        (torch.ones(3),),
        (torch.ones(4)[1:],),
    ),
    "memory of y": (
        lambda x, y: x * 2 if x is not y else x * 3,
        (torch.ones(3), torch.ones(3)),
        (TWICE, TWICE),
    ),
}


class Around(nn.Module):
    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = part

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.part(*args) + 0


WAYS: dict[str, Callable[[nn.Module], Callable[..., Any]]] = {
    "the call": lambda module: module,
    "forward": lambda module: module.forward,
    "in a module": Around,
    "compiled": lambda module: torch.compile(module, backend="eager"),
    "compiled by AOTAutograd": lambda module: torch.compile(module, backend="aot_eager"),
    "compiled by fxopt": lambda module: torch.compile(module, backend="fxopt", options={"then": "eager"}),
    "in a compiled module": lambda module: torch.compile(Around(module), backend="eager"),
    "exported": lambda module: lambda *args: torch.export.export(module, args).module()(*args),
    "exported in a module": lambda module: lambda *args: torch.export.export(Around(module), args).module()(*args),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", BRANCHES)
def test_every_way_to_call_a_result_checks_the_call(what: str, way: str) -> None:
    function, example, other = BRANCHES[what]
    result = GraphOptimizer(function, example).optimize().module
    called = WAYS[way](result)
    for _ in range(2):
        assert torch.equal(called(*example), function(*example))
    with pytest.raises(RefusedInputError, match=what):
        called(*other)
    assert torch.equal(called(*example), function(*example))


def test_a_result_by_dynamo_is_held_to_what_dynamo_does_not_guard() -> None:
    leaf = torch.ones(3, requires_grad=True)
    for function, example, other, what in (
        (lambda x: x * 2 if x.is_leaf else x * 3, (leaf,), (leaf * 1,), "is_leaf of x: expected True"),
        (lambda x, zero: x / zero, (torch.ones(3), 0.0), (torch.ones(3), -0.0), "the sign of zero: expected 0.0"),
    ):
        result = GraphOptimizer(function, example, capture="dynamo").optimize("exact").module
        assert torch.equal(result(*example), function(*example))
        with pytest.raises(RefusedInputError, match=what):
            result(*other)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("tracer", ["torch.fx", "torch.jit.trace"])
def test_a_trace_that_would_leave_the_check_behind_is_refused(tracer: str, inside: bool) -> None:
    result = GraphOptimizer(lambda x: x * 2, (torch.ones(3),)).optimize().module
    module = nn.Sequential(result) if inside else result
    traces = {
        "torch.fx": lambda: fx.symbolic_trace(module),
        "torch.jit.trace": lambda: torch.jit.trace(module, (torch.ones(3),), check_trace=False),
    }
    with pytest.raises(RefusedInputError, match=f"a trace by {tracer}, which checks no call"):
        traces[tracer]()


@pytest.mark.parametrize("gradients", [False, True])
def test_dynamo_takes_a_plain_call_whole(gradients: bool) -> None:
    result = GraphOptimizer(nn.Linear(4, 2).eval(), (torch.ones(3, 4),)).optimize().module
    with torch.set_grad_enabled(gradients):
        compiled = torch.compile(result, backend="eager", fullgraph=True)
        assert torch.equal(compiled(torch.ones(3, 4)), result(torch.ones(3, 4)))


def test_what_changes_after_a_result_was_compiled_is_seen() -> None:
    for method in ("export", "symbolic_trace"):
        model = nn.Sequential(nn.Linear(4, 2), nn.Dropout()).eval()
        result = GraphOptimizer(model, (torch.ones(3, 4),), capture=method).optimize("exact").module
        compiled = torch.compile(result, backend="eager", fullgraph=True)
        assert torch.equal(compiled(torch.ones(3, 4)), result(torch.ones(3, 4)))
        compiled = torch.compile(result, backend="eager")
        compiled(torch.ones(3, 4))
        with torch.autocast("cpu"), pytest.raises(RefusedInputError, match="autocast on cpu"):
            compiled(torch.ones(3, 4))
        torch.set_default_dtype(torch.float64)
        try:
            with pytest.raises(RefusedInputError, match="default dtype"):
                compiled(torch.ones(3, 4, dtype=torch.float32))
        finally:
            torch.set_default_dtype(torch.float32)
        result.training = True
        with pytest.raises(RuntimeError, match="captured in evaluation mode"):
            compiled(torch.ones(3, 4))
        result.training = False
        assert torch.equal(compiled(torch.ones(3, 4)), result(torch.ones(3, 4)))


# torch.func.

TRANSFORMS: dict[str, Callable[[Callable[..., torch.Tensor]], torch.Tensor]] = {
    "grad": lambda function: torch.func.grad(lambda x: function(x, A).sum())(B),
    "jvp": lambda function: torch.func.jvp(lambda x: function(x, A), (B,), (A,))[1],
    "jacrev": lambda function: torch.func.jacrev(lambda x: function(x, A))(B),
    "hessian": lambda function: torch.func.hessian(lambda x: function(x, A).sum())(B),
    "vmap": lambda function: torch.func.vmap(lambda x: function(x, A))(torch.stack([A, B])),
    "vmap over both": lambda function: torch.func.vmap(function)(torch.stack([A, B]), torch.stack([B, A])),
}
A, B = torch.linspace(-1, 1, 3), torch.linspace(1, 2, 3)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms_of_torch_func_go_through_a_result_with_two_inputs(transform: str) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * y).sin()

    expected = TRANSFORMS[transform](function)
    result = GraphOptimizer(function, (A.clone(), B.clone())).optimize().module
    for found in (result, capture(function, (A.clone(), B.clone()), "auto").run):
        torch.testing.assert_close(TRANSFORMS[transform](found), expected)


def test_one_tensor_twice_is_refused_inside_a_transform_too() -> None:
    result = GraphOptimizer(lambda x, y: x * y, (A.clone(), B.clone())).optimize().module
    rows = torch.stack([A, B])
    for call in (lambda: torch.func.vmap(result)(rows, rows), lambda: torch.func.grad(lambda x: result(x, x).sum())(A)):
        with pytest.raises(RefusedInputError, match="the memory of y"):
            call()


class ThreeTimes(torch.autograd.Function):
    """Has a backward pass that its forward pass does not have."""

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * 3 * ctx.saved_tensors[0]


@pytest.mark.parametrize("method", ["auto", "export", "symbolic_trace"])
def test_a_capture_without_gradients_refuses_to_be_differentiated(method: str) -> None:
    captured = capture(lambda x: ThreeTimes.apply(x).sin(), (torch.randn(2),), method)
    assert not captured.has_gradients
    for call in (
        lambda: torch.func.grad(lambda x: captured.run(x).sum())(torch.ones(2)),
        lambda: torch.func.jacrev(captured.run)(torch.ones(2)),
        lambda: torch.func.jvp(captured.run, (torch.ones(2),), (torch.ones(2),)),
        lambda: forward_mode(captured.run),
    ):
        with pytest.raises(RuntimeError, match="a derivative is asked of a graph whose gradients are not the model's"):
            call()
    assert captured.run(torch.ones(2)).shape == (2,)


def forward_mode(function: Callable[..., torch.Tensor]) -> torch.Tensor:
    with torch.autograd.forward_ad.dual_level():
        return function(torch.autograd.forward_ad.make_dual(torch.ones(2), torch.ones(2)))


@pytest.mark.parametrize("method", ["auto", "export"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.detach().clone().requires_grad_() * 2,
        lambda x: torch.autograd.grad((x.requires_grad_() ** 3).sum(), x, create_graph=True)[0],
    ],
)
def test_a_result_that_should_be_part_of_autograd_is_told(function: Callable[..., Any], method: str) -> None:
    assert function(torch.ones(3)).requires_grad
    captured = capture(function, (torch.randn(3),), method)
    assert captured.run(torch.ones(3)).requires_grad or any("gradients are not" in one for one in captured.caveats)


# Sizes of 1, after the passes.


def twice(x: torch.Tensor) -> torch.Tensor:
    """Forgets that there may be one row."""
    return x * 2 if x.shape[0] > 1 else x


class Trusting(OptimizationPass):
    """Takes every size for 2 or more."""

    def analyze(self, editor: GraphEditor) -> Analysis:
        found = editor.graph.find_nodes(op="call_function", target=torch.ops.aten.add.Tensor)
        return Analysis([Opportunity(node) for node in found])

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        node = opportunity.node
        editor.replace(node, editor.call(twice, node.args[0], like=node))


@pytest.mark.parametrize("dynamic", [True, {"x": {0: ("rows", 1, 64)}}, {"x": {0: ("rows", 0, 64)}}])
def test_a_pass_that_is_wrong_at_one_row_is_denied(dynamic: Any) -> None:
    optimizer = GraphOptimizer(lambda x: x + x, (torch.ones(3, 4),), dynamic=dynamic)
    result = optimizer.optimize([Trusting()])
    assert result.report.denied
    assert torch.equal(result.module(torch.ones(1, 4)), torch.full((1, 4), 2.0))
    assert torch.equal(result.module(torch.ones(5, 4)), torch.full((5, 4), 2.0))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.squeeze(0) if x.shape[0] == 1 else x,
        lambda x: x.mean(0) if x.size(0) == 1 else x.std(0),
        lambda x: x.t() * 2 if x.t().is_contiguous() else x.t() * 3,
    ],
)
def test_a_result_refuses_one_row_where_its_graph_is_wrong_there(function: Callable[..., torch.Tensor]) -> None:
    result = GraphOptimizer(function, (torch.randn(3, 4),), dynamic=True).optimize("training").module
    x = torch.randn(5, 4)
    assert torch.equal(result(x), function(x))
    with pytest.raises(RefusedInputError, match=r"the size of x in dimension 0: expected 2 or more, .* got 1"):
        result(torch.ones(1, 4))


def test_one_row_that_the_graph_shares_and_the_model_copies_is_refused_and_nothing_else_is_lost() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.t().clone() if x.shape[0] == 1 else x.t()

    result = GraphOptimizer(function, (torch.randn(3, 4),), dynamic=True).optimize("training").module
    assert torch.equal(result(torch.ones(5, 4)), torch.ones(4, 5))
    with pytest.raises(RefusedInputError, match="the size of x in dimension 0: expected 2 or more"):
        result(torch.ones(1, 4))

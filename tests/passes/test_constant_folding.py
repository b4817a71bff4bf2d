"""What never changes is computed once, and what may change is not."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from passes.programs import aten, graph_module, observe, operations
from torch import fx, nn

from autograder.traps.cases.folding import other_default_dtype
from fxopt_core.passes import disabled, run_pass


class Root(nn.Module):
    """Tensors of every kind that a module can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
        self.register_buffer("state", torch.tensor([0.5, 0.25, 2.0]))
        self.register_buffer("table", torch.tensor([1.0, 2.0, 4.0]), persistent=False)
        self.plain = torch.tensor([3.1, 1.3, 2.7])


def folds(module: fx.GraphModule, **options: Any) -> list[str]:
    """The nodes that the pass folds; a second run must fold none."""
    result = run_pass("constant_folding", module, **options)
    assert not run_pass("constant_folding", module, **options).changed
    run_pass("dead_code", module)
    return [rewrite.node for rewrite in result.rewrites]


def from_table(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    table = graph.get_attr("table")
    doubled = graph.call_function(aten.mul.Tensor, (table, 2))
    steps = graph.call_function(aten.arange.default, (3,))
    return graph.call_function(aten.add.Tensor, (x, graph.call_function(aten.add.Tensor, (doubled, steps))))


def test_a_computation_on_constants_becomes_one_tensor() -> None:
    module, x = graph_module(from_table, Root()), torch.randn(3)
    before, keys = observe(module, x), set(module.state_dict())
    result = run_pass("constant_folding", module)
    run_pass("dead_code", module)
    assert operations(module) == ["_assert_tensor_metadata.default", "add.Tensor"]
    assert result.statistics["bytes added"] == 3 * 4
    assert set(module.state_dict()) == keys
    assert observe(module, x) == before


def test_the_size_limit_leaves_the_large_and_folds_up_to_it() -> None:
    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        small = graph.call_function(aten.mul.Tensor, (graph.get_attr("table"), 2))
        large = graph.call_function(aten.repeat.default, (small, [100, 1]))
        return graph.call_function(aten.add.Tensor, (x, large))

    module = graph_module(build, Root())
    result = run_pass("constant_folding", module, limit_bytes=1199)
    assert [rewrite.node for rewrite in result.rewrites] == ["mul_tensor"]
    assert "1200 bytes" in result.refusals[-1].reason
    assert folds(graph_module(build, Root()), limit_bytes=1200) == ["repeat_default"]


@pytest.mark.parametrize("name", ["weight", "state"])
def test_freezing_is_asked_for(name: str) -> None:
    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return graph.call_function(aten.add.Tensor, (x, graph.call_function(aten.exp.default, (graph.get_attr(name),))))

    module, x = graph_module(build, Root()), torch.randn(3)
    assert folds(module) == []
    with disabled("constant_folding: state stays state"):
        assert folds(graph_module(build, Root())) == ["exp_default"]
    before = observe(module, x)
    assert folds(module, freeze=True) == ["exp_default"]
    assert observe(module, x) == before
    assert set(module.state_dict()) == set(before["state"])


def test_several_results_of_one_node_are_folded_one_by_one() -> None:
    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        parts = graph.call_function(torch.split, (graph.get_attr("plain"), [1, 2]))
        first, second = (
            graph.call_function(torch.ops.aten.alias.default, (graph.call_function(get, (parts, i)),)) for i in (0, 1)
        )
        return graph.call_function(torch.mul, (graph.call_function(torch.add, (x, first)), second))

    from operator import getitem as get

    module, x = graph_module(build, Root()), torch.randn(2)
    before = observe(module, x)
    assert len(folds(module)) == 2
    assert observe(module, x) == before


def test_what_raises_goes_on_raising() -> None:
    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        wrong = graph.call_function(aten.view.default, (graph.get_attr("table"), [2, 2]))
        return graph.call_function(aten.add.Tensor, (x, graph.call_function(aten.neg.default, (wrong,))))

    module = graph_module(build, Root())
    result = run_pass("constant_folding", module)
    assert not result.changed
    assert "RuntimeError" in result.refusals[0].reason
    with pytest.raises(RuntimeError):
        module(torch.randn(2, 2))


def test_a_limit_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="limit_bytes is -1; expected a number of bytes"):
        run_pass("constant_folding", graph_module(from_table, Root()), limit_bytes=-1)


def written(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    plain = graph.get_attr("plain")
    graph.call_function(aten.add_.Tensor, (plain, 1))
    return graph.call_function(aten.add.Tensor, (x, graph.call_function(aten.neg.default, (plain,))))


def draw(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    return graph.call_function(aten.add.Tensor, (x, graph.call_function(aten.rand.default, ([3],))))


CALLS = [0]


def counting(size: int) -> torch.Tensor:
    CALLS[0] += 1
    return torch.full((size,), CALLS[0])


def unknown(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    return graph.call_function(aten.add.Tensor, (x, graph.call_function(counting, (3,))))


def test_what_is_unknown_is_not_folded() -> None:
    module = graph_module(unknown, Root())
    assert folds(module) == []


def under_autocast(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    mode = graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, None))
    plain = graph.get_attr("plain")
    square = graph.call_function(torch.outer, (plain, plain))
    product = graph.call_function(torch.matmul, (square, plain))
    graph.call_function(torch.amp.autocast_mode._exit_autocast, (mode,))
    return graph.call_function(torch.add, (x, product))


def returned(graph: fx.Graph) -> Any:
    graph.placeholder("x")
    return graph.call_function(aten.mul.Tensor, (graph.get_attr("plain"), 2))


VARIABLE: dict[Callable[[fx.Graph], Any], str] = {
    written: "a write makes a variable",
    draw: "a draw is no constant",
    under_autocast: "no autocast region changes it",
    other_default_dtype: "what switches a mode is known",
    returned: "returned values are new each time",
}


def two_calls(module: fx.GraphModule) -> list[Any]:
    """What two calls give, where the caller writes to what the first one returned."""
    CALLS[0] = 0
    torch.manual_seed(0)
    seen = []
    for _ in range(2):
        result = module(torch.ones(3))
        seen.append((str(result.dtype), result.tolist()))
        result.mul_(-1)
    return [*seen, torch.get_rng_state().tolist()]


@pytest.mark.parametrize("build", VARIABLE, ids=lambda build: build.__name__)
def test_what_is_new_each_time_is_not_folded_and_its_check_is_needed(build: Callable[[fx.Graph], Any]) -> None:
    wanted = two_calls(graph_module(build, Root()))
    module = graph_module(build, Root())
    result = run_pass("constant_folding", module)
    assert not result.changed
    assert two_calls(module) == wanted
    module = graph_module(build, Root())
    with disabled(f"constant_folding: {VARIABLE[build]}"):
        assert run_pass("constant_folding", module).changed
    assert two_calls(module) != wanted


def positions(graph: fx.Graph) -> Any:
    """`x + table / 3 + arange(3) / 3 + arange(3)`: from a tensor of the module, from literals, and of integers."""
    x = graph.placeholder("x")
    third = graph.call_function(torch.div, (graph.get_attr("table"), 3))
    steps = graph.call_function(torch.arange, (3,))
    total = graph.call_function(torch.add, (x, third))
    total = graph.call_function(torch.add, (total, graph.call_function(torch.div, (steps, 3))))
    return graph.call_function(torch.add, (total, graph.call_function(torch.mul, (steps, 2))))


CASTS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "double": lambda module: module.double(),
    "half": lambda module: module.half(),
    "bfloat16": lambda module: module.bfloat16(),
    "to": lambda module: module.to(torch.float64),
    "copied and cast": lambda module: copy.deepcopy(module).double(),
    "cast as a part of another": lambda module: nn.Sequential(module).double(),
}


@pytest.mark.parametrize("name", CASTS)
def test_a_folded_value_is_not_cast_unseen(name: str) -> None:
    """Folding and then casting rounds differently from casting and then computing, and literals are not cast at all."""
    module, x = graph_module(positions, Root()), torch.randn(3)
    expected = module(x)
    assert len(folds(module)) == 3
    assert torch.equal(module(x), expected)
    with pytest.raises(RuntimeError, match="Tensor dtype mismatch! Expected: Float"):
        CASTS[name](module)(x)


def test_one_assertion_holds_for_all_values_of_a_dtype_and_integers_need_none() -> None:
    module = graph_module(positions, Root())
    run_pass("constant_folding", module)
    assertions = module.graph.find_nodes(op="call_function", target=aten._assert_tensor_metadata.default)
    assert [node.args[-1] for node in assertions] == [torch.float32]

    def integers(graph: fx.Graph) -> Any:
        steps = graph.call_function(torch.arange, (3,))
        return graph.call_function(torch.add, (graph.placeholder("x"), graph.call_function(torch.mul, (steps, 2))))

    module = graph_module(integers, Root())
    assert len(folds(module)) == 1
    assert operations(module) == ["add"]
    assert torch.equal(module.double()(torch.ones(3).double()), torch.tensor([1.0, 3.0, 5.0]).double())


AROUND: dict[str, Callable[[], Any]] = {
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
}


@pytest.mark.parametrize("name", AROUND)
def test_the_mode_in_which_the_pass_is_called_does_not_reach_the_values(name: str) -> None:
    """Neither 16 bits nor a tensor of inference mode, which no backward pass may keep, is left in the module."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return graph.call_function(torch.mul, (x, graph.call_function(torch.div, (graph.get_attr("table"), 3))))

    module, x = graph_module(build, Root()), torch.randn(3, requires_grad=True)
    expected = module(x)
    with AROUND[name]():
        assert len(folds(module)) == 1
    assert torch.equal(module(x), expected)
    (gradient,) = torch.autograd.grad(module(x).sum(), x)
    assert torch.equal(gradient, Root().table / 3)

"""What never changes is computed once, and what may change is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from passes.programs import aten, graph_module, observe, operations
from torch import fx, nn

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
    assert operations(module) == ["add.Tensor"]
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
    under_autocast: "a switched mode",
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

"""The same thing is computed once, and what only looks the same twice."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from passes.programs import aten, graph_module, observe, operations
from torch import fx, nn
from torch.nn import functional

from fxopt_core.passes import disabled, run_pass


def merged(module: fx.GraphModule) -> int:
    """How many nodes the pass takes out; a second run must take out none."""
    result = run_pass("common_subexpressions", module)
    assert not run_pass("common_subexpressions", module).changed
    return len(result.rewrites)


def test_equal_expressions_of_equal_expressions_are_merged() -> None:
    module = fx.symbolic_trace(lambda x: torch.sin(x + 1) * torch.sin(x + 1))
    x = torch.randn(3)
    before = observe(module, x)
    assert merged(module) == 2
    assert operations(module) == ["add", "sin", "mul"]
    assert observe(module, x) == before


def test_modules_and_attributes_are_merged_also_under_two_names() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Linear(3, 3)
            self.same = self.one

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.one(x) + self.same(x) + self.one.weight.sum() * self.one.weight.sum()

    module = fx.symbolic_trace(Model())
    x = torch.randn(2, 3)
    before = observe(module, x)
    assert merged(module) >= 2
    assert observe(module, x) == before


@pytest.mark.parametrize(("other", "count"), [(2, 1), (3, 0)])
def test_keyword_arguments_are_the_same_in_any_order(other: int, count: int) -> None:
    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        one = graph.call_function(torch.add, (x,), {"other": 1, "alpha": 2})
        return graph.call_function(torch.sub, (one, graph.call_function(torch.add, (x,), {"alpha": other, "other": 1})))

    module, x = graph_module(build), torch.randn(3)
    before = observe(module, x)
    assert merged(module) == count
    assert observe(module, x) == before


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, 1.0), (1, True), (0.0, -0.0), (torch.float32, torch.float64), ([1, 2], (1, 2)), (2, "2"), (1.0, 1.0 + 2**-52)],
)
def test_literals_that_differ_in_type_or_bits_stay_apart(one: Any, other: Any) -> None:
    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return [graph.call_function(torch.add, (x, one)), graph.call_function(torch.add, (x, other))]

    assert merged(graph_module(build)) == 0


@pytest.mark.parametrize("value", [1, -0.0, float("nan"), float("inf"), True, (1, (2, 3)), 2 + 1j, slice(0, 2), None])
def test_literals_that_are_the_same_are_merged(value: Any) -> None:
    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        return [
            graph.call_function(torch.neg, (graph.call_function(torch.add, (x, value)),)),
            graph.call_function(torch.exp, (graph.call_function(torch.add, (x, value)),)),
        ]

    assert merged(graph_module(build)) == 1


def test_views_are_merged_although_their_storage_is_written() -> None:
    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        own = graph.call_function(aten.clone.default, (x,))
        one = graph.call_function(aten.select.int, (own, 0, 0))
        other = graph.call_function(aten.select.int, (own, 0, 0))
        graph.call_function(aten.add_.Tensor, (one, 1))
        graph.call_function(aten.mul_.Tensor, (other, 2))
        return own

    module = graph_module(build)
    x = torch.randn(3, 2)
    before = observe(module, x)
    assert merged(module) == 1
    assert observe(module, x) == before


def test_reads_before_a_write_are_merged_and_reads_across_it_are_not() -> None:
    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        before = [graph.call_function(aten.sin.default, (x,)) for _ in range(2)]
        graph.call_function(aten.add_.Tensor, (x, 1))
        after = [graph.call_function(aten.sin.default, (x,)) for _ in range(2)]
        return [graph.call_function(aten.cat.default, ([*before, *after],))]

    module = graph_module(build)
    x = torch.randn(3)
    seen = observe(module, x)
    assert merged(module) == 2
    assert observe(module, x) == seen


def draws(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    return graph.call_function(torch.sub, tuple(graph.call_function(torch.rand_like, (x,)) for _ in range(2)))


def writes(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    own = graph.call_method("clone", (x,))
    for _ in range(2):
        graph.call_method("add_", (own, 1))
    return own


def unknown(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    return graph.call_function(torch.sub, tuple(graph.call_function(counting, (x,)) for _ in range(2)))


COUNT = [0]


def counting(x: torch.Tensor) -> torch.Tensor:
    COUNT[0] += 1
    return x + COUNT[0]


def switches(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    results = []
    for function, enabled in ((torch.sin, False), (torch.cos, True), (torch.exp, False), (torch.neg, True)):
        graph.call_function(torch._C._set_grad_enabled, (enabled,))
        results.append(graph.call_function(function, (x,)))
    return results


def batch_norm_twice(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    return graph.call_function(torch.sub, tuple(graph.call_module("norm", (x,)) for _ in range(2)))


@pytest.mark.parametrize("build", [unknown, writes, batch_norm_twice], ids=lambda build: build.__name__)
def test_what_does_something_each_time_is_never_merged(build: Callable[[fx.Graph], Any]) -> None:
    root = nn.Module()
    root.norm = nn.BatchNorm1d(4)
    assert merged(graph_module(build, root)) == 0


def across_a_mode_switch(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    one = graph.call_function(torch.sin, (x,))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    other = graph.call_function(torch.sin, (x,))
    return graph.call_function(torch.mul, (one, other))


def across_a_write(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    own = graph.call_method("clone", (x,))
    one = graph.call_function(torch.sin, (own,))
    graph.call_function(functional.relu, (own,), {"inplace": True})
    return graph.call_function(torch.sub, (one, graph.call_function(torch.sin, (own,))))


def copies_of_which_one_is_written(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    one = graph.call_function(aten.clone.default, (x,))
    other = graph.call_function(aten.clone.default, (x,))
    graph.call_function(aten.add_.Tensor, (one, 1))
    return graph.call_function(aten.sub.Tensor, (one, other))


def two_results(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    return [graph.call_function(torch.sin, (x,)), graph.call_function(torch.sin, (x,))]


APART: dict[Callable[[fx.Graph], Any], str] = {
    draws: "a draw is unique",
    switches: "same mode",
    across_a_mode_switch: "same mode",
    across_a_write: "inputs unchanged",
    copies_of_which_one_is_written: "the result is not written",
    two_results: "returned values stay apart",
}


def everything(module: fx.GraphModule, x: torch.Tensor) -> Any:
    """All that `observe` sees; where modes are switched, also through what gradients flow."""
    COUNT[0] = 0
    seen = observe(module, x)
    COUNT[0] = 0
    given = x.clone().requires_grad_()
    outputs = copy.deepcopy(module)(given)
    torch._C._set_grad_enabled(True)
    flat = [outputs] if isinstance(outputs, torch.Tensor) else outputs
    return seen, [gradient(tensor, given) for tensor in flat if module_switches(module)]


def gradient(result: torch.Tensor, given: torch.Tensor) -> list[float] | None:
    return torch.autograd.grad(result.sum(), given, retain_graph=True)[0].tolist() if result.requires_grad else None


def module_switches(module: fx.GraphModule) -> bool:
    return any(node.target is torch._C._set_grad_enabled for node in module.graph.nodes)


@pytest.mark.parametrize("build", APART, ids=lambda build: build.__name__)
def test_what_only_looks_the_same_stays_apart_and_its_check_is_needed(build: Callable[[fx.Graph], Any]) -> None:
    x = torch.linspace(-1.0, 1.0, 4)
    module = graph_module(build)
    wanted, seen = operations(module), everything(module, x)
    run_pass("common_subexpressions", module)
    assert operations(module) == wanted
    assert everything(module, x) == seen
    with disabled(f"common_subexpressions: {APART[build]}"):
        assert run_pass("common_subexpressions", module).changed
    assert everything(module, x) != seen

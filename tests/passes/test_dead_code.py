"""What nothing observes goes, and everything else stays."""

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


def unused_chain(x: torch.Tensor) -> torch.Tensor:
    dead = torch.sin(x)
    torch.cos(dead).view(-1)
    return x + 1


def test_a_chain_that_nobody_uses_goes() -> None:
    module, x = fx.symbolic_trace(unused_chain), torch.randn(3)
    before = observe(module, x)
    result = run_pass("dead_code", module)
    assert operations(module) == ["add"]
    assert [rewrite.node for rewrite in result.rewrites] == ["view", "cos", "sin"]
    assert observe(module, x) == before
    assert not run_pass("dead_code", module).changed


def test_parameters_that_nobody_uses_stay_in_the_state() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unused = nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.unused(x)
            return x * 2

    module = fx.symbolic_trace(Model())
    keys = set(module.state_dict())
    run_pass("dead_code", module)
    assert operations(module) == ["mul"]
    assert set(module.state_dict()) == keys == {"unused.weight", "unused.bias"}


def test_a_write_to_storage_that_only_dead_nodes_read_goes() -> None:
    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        scratch = graph.call_function(aten.clone.default, (x,))
        graph.call_function(aten.add_.Tensor, (scratch, 1))
        graph.call_function(aten.sin.default, (scratch,))
        return graph.call_function(aten.neg.default, (x,))

    module = graph_module(build)
    run_pass("dead_code", module)
    assert operations(module) == ["neg.default"]


def write_through_a_view(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    own = graph.call_function(aten.clone.default, (x,))
    row = graph.call_function(aten.select.int, (own, 0, 0))
    graph.call_function(aten.add_.Tensor, (row, 1))
    return own


def write_to_an_input(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    graph.call_method("mul_", (x, 3))
    return graph.call_function(torch.ones, (2,))


def write_to_an_out_argument(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    buffer = graph.call_function(torch.zeros_like, (x,))
    graph.call_function(torch.sin, (x,), {"out": buffer})
    return buffer


def in_place_flag(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    own = graph.call_method("clone", (x,))
    graph.call_function(functional.relu, (own, True))
    return own


def in_place_module(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    own = graph.call_method("clone", (x,))
    graph.call_module("relu", (own,))
    return own


def statistics(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    graph.call_module("norm", (x,))
    return graph.call_method("neg", (x,))


def draw(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    graph.call_function(functional.dropout, (x,))
    return graph.call_function(torch.rand_like, (x,))


def mode_switch(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    y = graph.call_function(torch.sin, (x,))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    return y


def assertion(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    truth = graph.call_function(torch.all, (graph.call_function(torch.gt, (x, 0)),))
    graph.call_function(torch._assert, (truth, "an input is not positive"))
    return graph.call_function(torch.neg, (x,))


def unknown(graph: fx.Graph) -> Any:
    x = graph.placeholder("x")
    graph.call_function(count_call, (x,))
    return graph.call_function(torch.neg, (x,))


CALLS: list[int] = []


def count_call(x: torch.Tensor) -> None:
    CALLS.append(x.numel())


def root() -> nn.Module:
    module = nn.Module()
    module.relu = nn.ReLU(inplace=True)
    module.norm = nn.BatchNorm1d(3)
    return module


STAYS: dict[Callable[[fx.Graph], Any], str] = {
    write_through_a_view: "a write is seen",
    write_to_an_input: "a write is seen",
    write_to_an_out_argument: "a write is seen",
    in_place_flag: "a write is seen",
    in_place_module: "a write is seen",
    statistics: "a write is seen",
    draw: "a draw moves the random stream",
    mode_switch: "a mode switch stays",
    assertion: "an assertion stays",
    unknown: "the unknown stays",
}


@pytest.mark.parametrize("build", STAYS, ids=lambda build: build.__name__)
def test_what_can_be_seen_stays_and_its_check_is_needed(build: Callable[[fx.Graph], Any]) -> None:
    x = torch.randn(4, 3)
    module = graph_module(build, root())
    wanted = operations(module)
    result = run_pass("dead_code", module)
    assert operations(module) == wanted
    assert result.refusals
    before = observe_or_error(module, x)
    with disabled(f"dead_code: {STAYS[build]}"):
        assert run_pass("dead_code", module).changed
    assert observe_or_error(module, x) != before


def observe_or_error(module: nn.Module, x: torch.Tensor) -> Any:
    CALLS.clear()
    try:
        seen = observe(module, x)
    except AssertionError as error:
        return str(error)
    return seen, list(CALLS), gradient_flows(module, x)


def gradient_flows(module: nn.Module, x: torch.Tensor) -> bool | None:
    """Whether the result records gradients; `None` for graphs that only work without."""
    try:
        return bool(copy.deepcopy(module)(x.clone().requires_grad_()).requires_grad)
    except RuntimeError:
        return None

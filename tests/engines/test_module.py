"""A model over an engine is right wherever the engine would not be: the optimised graph answers there."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fxopt_core.capture.errors import RefusedInputError
from fxopt_core.optimizer import GraphOptimizer
from fxopt_core.optimizer.engines import Request, Taken
from fxopt_workbench.engines import Engine
from fxopt_workbench.engines.module import EngineModule
from fxopt_workbench.engines.places import place_of
from fxopt_workbench.engines.program import Program, Run, detached

SHARED = torch.randn(2)


def _frozen(program: Program, folder: Path, threads: int) -> Run:
    """The graph with weights of its own, counted; like a compiler that bakes them in."""
    graph = detached(program.graph)

    def run(*tensors: torch.Tensor) -> Any:
        CALLS.append(1)
        with torch.no_grad():
            return graph(*tensors)

    return run


CALLS: list[int] = []
FROZEN = Engine("frozen", _frozen)
LIVE = Engine("live", lambda program, *_: program.graph.forward, gradients=True, live_weights=True, other_sizes=True)


@dataclass
class Given:
    """An `engine` that is taken without being tried."""

    engine: Engine

    def __call__(self, request: Request) -> Taken:
        stands = place_of(request)
        return Taken(stands.over(self.engine, Path(), 1), request)  # type: ignore[arg-type]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 4), nn.LayerNorm(4)
        self.register_buffer("table", torch.arange(4.0))

    def forward(self, x: torch.Tensor, *, scale: float = 2.0) -> dict[str, Any]:
        hidden = self.norm(self.linear(x)) * scale + self.table
        return {"same": x, "hidden": hidden, "twice": [hidden, hidden], "number": 3}


def over(engine: Engine, model: nn.Module, *args: Any, **options: Any) -> EngineModule:
    CALLS.clear()
    module = GraphOptimizer(model, args, **options).optimize("inference", engine=Given(engine)).module
    assert isinstance(module, EngineModule)
    return module


X = torch.randn(5, 3)


@pytest.fixture
def model() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def test_results_have_the_form_and_the_identities_of_the_models(model: Net) -> None:
    module = over(FROZEN, model, X)
    with torch.no_grad():
        found, wanted = module(X), model(X)
    assert CALLS
    torch.testing.assert_close(found, wanted)
    assert found["same"] is X
    assert found["twice"][0] is found["twice"][1] is found["hidden"]


def test_gradients_come_from_the_graph_with_one_warning(model: Net) -> None:
    module = over(FROZEN, model, X)
    with pytest.warns(UserWarning, match="no gradients"):
        module(X)["hidden"].sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module(X)
    assert not CALLS
    assert dict(module.named_parameters())["linear.weight"].grad is not None
    assert sum(module.fallbacks.values()) == 2


WRITES: dict[str, Callable[[nn.Module], None]] = {
    "in place": lambda module: module.get_parameter("linear.bias").add_(1),
    "a checkpoint": lambda module: module.load_state_dict({**module.state_dict(), "linear.bias": torch.ones(4)}),
    "another parameter": lambda module: setattr(module.linear, "bias", nn.Parameter(torch.ones(4))),
    "a buffer": lambda module: module.get_buffer("table").mul_(3),
    "another module": lambda module: setattr(module, "linear", nn.Linear(3, 4)),
}


@pytest.mark.parametrize("write", WRITES)
def test_weights_that_change_count_from_the_next_call_on(model: Net, write: str) -> None:
    module = over(FROZEN, model, X)
    with torch.no_grad():
        WRITES[write](module)
        wanted = module.optimized(X)["hidden"]
        with pytest.warns(UserWarning, match="a weight has changed"):
            assert torch.equal(module(X)["hidden"], wanted)
    assert not CALLS


def test_other_sizes_are_answered_by_the_graph_or_refused_as_without_an_engine(model: Net) -> None:
    module = over(FROZEN, model, X)
    with torch.no_grad(), pytest.raises(RefusedInputError, match="size of x"):
        module(torch.randn(6, 3))
    module = over(FROZEN, model, X, dynamic={"x": {0: ("batch", 2, 64)}})
    other = torch.randn(6, 3)
    with torch.no_grad():
        module(X)
        with pytest.warns(UserWarning, match="other sizes"):
            torch.testing.assert_close(module(other), model(other))
    assert len(CALLS) == 1
    module = over(LIVE, model, X, dynamic={"x": {0: ("batch", 2, 64)}})
    with torch.no_grad():
        torch.testing.assert_close(module(other), model(other))
    assert not module.fallbacks


def test_a_transform_sees_the_operators(model: Net) -> None:
    module = over(FROZEN, model, X)
    with pytest.warns(UserWarning, match="transform"), torch.no_grad():
        _, moved = torch.func.jvp(lambda x: module(x)["hidden"], (X,), (torch.ones_like(X),))
    wanted = torch.func.jvp(lambda x: model(x)["hidden"], (X,), (torch.ones_like(X),))[1]
    torch.testing.assert_close(moved, wanted)


def test_checkpoints_modes_and_copies_are_those_of_the_model(model: Net) -> None:
    module = over(FROZEN, model, X)
    assert module.state_dict().keys() == model.state_dict().keys()
    assert {name for name, _ in module.named_parameters()} == {name for name, _ in model.named_parameters()}
    with pytest.raises(RuntimeError, match="training mode"):
        module.train()
    with pytest.raises(RuntimeError, match="float64"):
        module.double()
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        with torch.no_grad():
            torch.testing.assert_close(copied(X), model(X))


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return torch.relu_(x * 2)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Counts().eval(), "writes"),
        (nn.Dropout(0.5).train(), "random"),
        (nn.BatchNorm1d(3).train(), "writes"),
    ],
)
def test_what_a_graph_does_besides_is_a_reason_to_refuse(model: nn.Module, reason: str) -> None:
    optimizer = GraphOptimizer(model, (X,))
    stands = place_of(Request(optimizer.optimize("exact").module, (X,), None, False, None))  # type: ignore[arg-type]
    assert reason in FROZEN.objection(stands.program, gradients=False)
    assert not replace(FROZEN, effects=True).objection(stands.program, gradients=False)


def test_in_place_on_what_the_graph_made_is_none() -> None:
    stands = place_of(
        Request(GraphOptimizer(nn.ReLU(inplace=False), (X,)).optimize().module, (X,), None, False, None)  # type: ignore[arg-type]
    )
    assert not stands.program.effects

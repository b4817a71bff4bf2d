"""Nothing of the caller's changes, whatever the call does."""

from __future__ import annotations

import random
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from fxopt_core.verification import check_equivalence, same_state

X = torch.linspace(-2.0, 2.0, 6).reshape(2, 3)


class Everything(nn.Module):
    """Holds values in every way that a module can."""

    def __init__(self, change: Callable[[Any, torch.Tensor], Any]) -> None:
        super().__init__()
        self.change = change
        self.weight = nn.Parameter(torch.arange(3.0))
        self.tied = self.weight
        self.register_buffer("base", torch.arange(6.0))
        self.register_buffer("window", self.base.unfold(0, 3, 1))
        self.register_buffer("absent", None)
        self.parts = [nn.BatchNorm1d(3)]
        self.norm = nn.BatchNorm1d(3)
        self.list = [torch.zeros(2), 1]
        self.queue = deque([1])
        self.dictionary = {"a": {1}, "b": 2.0}
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.change(self, x)
        return x * self.weight


CHANGES: dict[str, Callable[[Any, torch.Tensor], Any]] = {
    "writes": lambda m, x: m.window.data.zero_(),
    "writes with gradients": lambda m, x: m.norm.running_mean.mul_(m.weight + 1),
    "data": lambda m, x: setattr(m.weight, "data", torch.zeros(5, 3)),
    "larger": lambda m, x: m.base.resize_(99).zero_(),
    "transposed": lambda m, x: m.base.as_strided_((2, 2), (1, 2)),
    "other memory": lambda m, x: m.base.set_(torch.ones(6)),
    "frozen": lambda m, x: m.requires_grad_(False),
    "tracked": lambda m, x: m.base.requires_grad_(),
    "new buffer": lambda m, x: m.register_buffer("new", x),
    "other parameter": lambda m, x: setattr(m, "weight", nn.Parameter(torch.ones(3))),
    "filled": lambda m, x: setattr(m, "absent", x),
    "gone": lambda m, x: delattr(m, "base"),
    "new part": lambda m, x: m.add_module("new", nn.ReLU()),
    "list": lambda m, x: (m.list.append(x), m.list[0].add_(1), m.list.__setitem__(1, 2)),
    "queue": lambda m, x: m.queue.append(x),
    "dictionary": lambda m, x: (m.dictionary["a"].add(2), m.dictionary.update(b=3.0)),
    "number": lambda m, x: setattr(m, "calls", m.calls + 1),
    "flags": lambda m, x: (m.eval(), m.parts[0].eval()),
    "statistics": lambda m, x: (m.norm(x), m.parts[0](x)),
    "input": lambda m, x: x.resize_(1),
}


def photograph(module: Everything) -> dict[str, Any]:
    """All that it holds, in a form that `==` compares."""
    parts = [module, module.norm, module.parts[0]]
    tensors = {
        f"{index}.{name}": (
            id(tensor), tensor.tolist(), tensor.stride(), tensor.requires_grad, tensor.grad_fn)
        for index, part in enumerate(parts)
        for name, tensor in {**part._parameters, **part._buffers}.items()
        if tensor is not None
    }  # fmt: skip
    return {
        "tensors": tensors,
        "attributes": [sorted(vars(part)) for part in parts],
        "buffers": [list(part._buffers) for part in parts],
        "parts": list(module._modules),
        "training": [part.training for part in parts],
        "list": (len(module.list), module.list[0].tolist(), module.list[1]),
        "queue": list(module.queue),
        "dictionary": (sorted(module.dictionary["a"]), module.dictionary["b"]),
        "calls": module.calls,
        "shared": module.window.untyped_storage().data_ptr() == module.base.untyped_storage().data_ptr(),
        "tied": module.tied is module.weight,
    }


@pytest.mark.parametrize("name", CHANGES)
def test_a_module_is_as_it_was(name: str) -> None:
    module, bystander = Everything(CHANGES[name]), Everything(lambda m, x: None)
    before, x = photograph(module), X.clone()
    loss = (x * module.weight).sum()
    # It does change, or else this would show nothing.
    assert not check_equivalence(module, bystander, (x,))
    assert photograph(module) == before
    check_equivalence(bystander, module, (x,))
    assert photograph(module) == before
    assert torch.equal(x, X)
    loss.backward()


def test_a_buffer_without_memory_is_refused_and_gets_it_back() -> None:
    module = Everything(lambda m, x: m.base.untyped_storage().resize_(0))
    before = photograph(module)
    with pytest.raises(TypeError, match="base is a tensor without memory"):
        check_equivalence(module, module, (X,))
    assert photograph(module) == before


def test_a_graph_of_the_callers_stays() -> None:
    module = Everything(lambda m, x: setattr(m, "dictionary", {"a": {1}, "b": m.list[0] * 2}))
    history = (module.weight.exp() * 2).sum()
    module.list[0] = history * torch.ones(2)
    assert check_equivalence(module, module, (X,))
    module.list[0].sum().backward()
    assert module.weight.grad is not None
    assert module.weight.grad.abs().min() > 0


def test_generators_modes_and_inputs_are_as_they_were() -> None:
    def act(x: torch.Tensor) -> torch.Tensor:
        random.random()
        torch.set_grad_enabled(False)
        torch.set_autocast_enabled("cpu", True)
        torch.set_autocast_dtype("cpu", torch.half)
        torch.set_default_dtype(torch.double)
        return x.mul_(torch.rand(3))

    def modes() -> list[Any]:
        return [
            random.getstate(),
            torch.get_rng_state().tolist(),
            torch.is_grad_enabled(),
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.get_default_dtype(),
        ]

    assert not torch.is_autocast_enabled("cpu"), "an earlier test left it on"
    before, x = modes(), X.clone().mul(1.0)
    assert check_equivalence(act, act, (x,))
    assert modes() == before
    assert torch.equal(x, X)
    assert x.grad is None


def test_state_is_put_back_when_the_call_raises() -> None:
    def fail(module: Everything, x: torch.Tensor) -> None:
        module.base = module.base + 1
        module.eval()
        raise ValueError("no")

    module = Everything(fail)
    before = photograph(module)
    assert not check_equivalence(module, Everything(lambda m, x: None), (X,))
    assert photograph(module) == before
    with pytest.raises(ValueError, match="no"), same_state(module):
        module(X)
    assert photograph(module) == before


def test_what_did_not_change_is_not_touched() -> None:
    # Dynamo compiles again when a dictionary or a parameter is another one.
    compilations = []

    def backend(graph_module: Any, inputs: Any) -> Any:
        compilations.append(graph_module)
        return graph_module.forward

    module = Everything(lambda m, x: m.base.add_(1))
    assert check_equivalence(module, torch.compile(module, backend=backend), (X,))
    # Once for each way to record gradients.
    assert len(compilations) == 3


class MakesWhenAsked(OrderedDict[str, Any]):
    """As transformers' table of activations: it holds classes, and gives a new instance whenever it is asked."""

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key)()


def test_a_dictionary_that_makes_values_when_it_is_asked_keeps_what_it_holds() -> None:
    class Chooses(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = MakesWhenAsked(relu=nn.ReLU, last=nn.Tanh)
            self.table.move_to_end("relu")

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.table["added"] = nn.GELU
            return self.table["relu"](x) + x

    model = Chooses()
    with same_state(model):
        model(X)
        assert len(model.table) == 3
    assert [(key, OrderedDict.__getitem__(model.table, key)) for key in model.table] == [
        ("last", nn.Tanh),
        ("relu", nn.ReLU),
    ]
    with same_state(model):
        assert torch.equal(model.table["relu"](X), X.relu())

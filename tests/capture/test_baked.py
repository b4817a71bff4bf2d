"""What a graph has computed ahead from a tensor holds as long as the tensor has the values that it had."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from fxopt_core import GraphOptimizer
from fxopt_core.capture import RefusedInputError
from fxopt_core.capture.baked import BakedTensors
from fxopt_core.capture.module import CapturedModule

X = torch.linspace(-1, 1, 75).view(1, 3, 5, 5)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()


def folded() -> CapturedModule:
    result = GraphOptimizer(model(), (X,)).optimize("inference")
    assert "conv_batchnorm_folding" in [one.rule for one in result.report.rewrites]
    return result.module


OTHERS = {name: value + 1 for name, value in model().state_dict().items()}


def by_part(module: nn.Module) -> Any:
    for part in ("0", "1"):
        state = {name[2:]: value for name, value in OTHERS.items() if name.startswith(part)}
        module.get_submodule(part).load_state_dict(state)
    return module(X)


def in_place(module: nn.Module) -> Any:
    for name, value in module.state_dict().items():
        value.copy_(OTHERS[name])
    return module(X)


def by_data(module: nn.Module) -> Any:
    for name, value in module.named_parameters():
        value.data = OTHERS[name]
    return module(X)


def as_a_vector(module: nn.Module) -> Any:
    nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(module.parameters()) + 1, module.parameters())
    return module(X)


def another_parameter(module: nn.Module) -> Any:
    module.get_submodule("0").weight = nn.Parameter(OTHERS["0.weight"])
    return module(X)


WAYS: tuple[Callable[[nn.Module], Any], ...] = (
    by_part,
    in_place,
    by_data,
    as_a_vector,
    another_parameter,
    lambda module: torch.func.functional_call(module, OTHERS, (X,)),
    lambda module: torch.func.grad(lambda state: torch.func.functional_call(module, state, (X,)).sum())(
        dict(module.named_parameters())
    ),
)


@pytest.mark.parametrize("way", WAYS)
def test_other_values_are_refused_however_they_come(way: Callable[[nn.Module], Any]) -> None:
    module = folded()
    expected = module(X)
    way(model())  # the model itself takes them
    with pytest.raises(RefusedInputError, match=r"the values of .*0\.weight.*: expected those that they had"):
        way(module)
    if way in (WAYS[-1], WAYS[-2]):  # they were put in its place for one call
        assert module(X).equal(expected)


@pytest.mark.parametrize("way", WAYS[:3])
def test_so_they_are_of_a_copy(way: Callable[[nn.Module], Any]) -> None:
    stored = io.BytesIO()
    torch.save(folded(), stored)
    stored.seek(0)
    for module in (copy.deepcopy(folded()), torch.load(stored, weights_only=False)):
        assert module(X).equal(folded()(X))
        with pytest.raises(RefusedInputError, match="the values of"):
            way(module)


def test_the_same_values_are_taken_however_they_come() -> None:
    module = folded()
    expected, same = module(X), copy.deepcopy(module.state_dict())
    module.load_state_dict(same)
    assert module(X).equal(expected)
    for name, value in module.named_parameters():
        value.data = same[name].clone()
    assert module(X).equal(expected)
    assert torch.func.functional_call(module, same, (X,)).equal(expected)
    module.share_memory()
    assert module(X).equal(expected)
    assert torch.export.export(module, (X,)).module()(X).equal(expected)


class Shifted(nn.Module):
    """Adds what it computes from a buffer that no checkpoint has, and from an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.ones(3), persistent=False)
        self.step = torch.ones(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.shift * 2 + self.step * 3


@pytest.mark.parametrize("name", ["shift", "step"])
def test_tensors_outside_of_checkpoints_are_watched_too(name: str) -> None:
    module = GraphOptimizer(Shifted(), (torch.ones(3),)).optimize("exact").module
    assert module(torch.ones(3)).tolist() == [6.0] * 3
    getattr(module, name).fill_(5)
    with pytest.raises(RefusedInputError, match=f"the values of {name}: "):
        module(torch.ones(3))


def test_what_the_graph_still_reads_may_change() -> None:
    module = GraphOptimizer(model(), (X,)).optimize("training").module
    by_part(module)
    other = model()
    other.load_state_dict(OTHERS)
    torch.testing.assert_close(module(X), other(X))


def test_a_copy_of_what_has_no_values_is_taken() -> None:
    module = nn.Module()
    module.register_buffer("table", torch.empty(3, device="meta"))
    watched = BakedTensors().of(module, ["table"])
    assert list(watched.held) == ["table"]
    assert copy.deepcopy(watched).changed() == watched.of(copy.deepcopy(module), []).changed() == []

"""A capture or a call that raises leaves the process as it was: its modes, and the transforms of `torch.func`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from switches import switches
from torch import nn
from torch._C import _autograd
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, _sdpa_kernel, sdpa_kernel

from fxopt_core import GraphOptimizer
from fxopt_core.capture import CaptureError, capture
from fxopt_core.verification.modes import modes_put_back, unwound


class LooksUp(nn.Module):
    """Looks up rows of a table in a mode of its own."""

    def __init__(self, mode: Callable[[], Any]) -> None:
        super().__init__()
        self.table, self.mode = nn.Parameter(torch.ones(5, 3)), mode

    def forward(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        with self.mode():
            found = self.table[rows] * 2
        return x * found


MODES = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "kernels of attention": lambda: sdpa_kernel(SDPBackend.MATH),
    "no hooks on saved tensors": lambda: torch.autograd.graph.disable_saved_tensors_hooks("not here"),
    "no forward mode": lambda: forward_ad._set_fwd_grad_enabled(False),
}


class Transforms(nn.Module):
    """Looks up rows of a table inside of a transform of `torch.func`."""

    def __init__(self, transform: Callable[..., Any]) -> None:
        super().__init__()
        self.table, self.transform = nn.Parameter(torch.ones(5, 3)), transform

    def forward(self, x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        return self.transform(lambda one: (self.table[rows] * one).sum(), x)


TRANSFORMS = {
    "grad": lambda function, x: torch.func.grad(function)(x),
    "vjp": lambda function, x: torch.func.vjp(function, x)[1](torch.ones(()))[0],
    "jvp": lambda function, x: torch.func.jvp(function, (x,), (x,))[1],
    "vmap": lambda function, x: torch.func.vmap(function)(x),
    "hessian": lambda function, x: torch.func.hessian(function)(x),
}


@pytest.mark.parametrize("method", ["export", "dynamo"])
@pytest.mark.parametrize("name", MODES)
def test_a_call_that_raises_leaves_no_mode_behind(name: str, method: str) -> None:
    x, rows, beyond = torch.ones(2, 3), torch.tensor([1, 2]), torch.tensor([1, 77])
    module = GraphOptimizer(LooksUp(MODES[name]), (x, rows), capture=method).optimize("training").module
    with torch.set_grad_enabled(name != "enable_grad"):
        before = switches()
        with pytest.raises(IndexError):
            module(x, beyond)
        assert switches() == before


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_call_that_raises_ends_the_transforms_that_it_began(name: str) -> None:
    x, rows, beyond = torch.ones(2, 3), torch.tensor([1, 2]), torch.tensor([1, 77])
    module = GraphOptimizer(Transforms(TRANSFORMS[name]), (x, rows), capture="dynamo").optimize("training").module
    before = switches()
    with pytest.raises(IndexError):
        module(x, beyond)
    assert switches() == before


FLIPPED = {
    "default dtype",
    "grad mode",
    "autocast on cpu",
    "autocast's cache",
    "kernels of attention",
    "their order",
    "why hooks on saved tensors are disabled",
    "forward mode allowed",
}
"""What a call that comes to its end leaves; regions of autocast and transforms end with every call."""


def test_of_a_call_that_raises_every_switch_is_put_back() -> None:
    before = switches()

    def flips(*, raises: bool) -> None:
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.autocast("cpu", torch.bfloat16, cache_enabled=False).__enter__()
        # Not by their contexts, which leave again as soon as nobody holds them.
        _sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True)
        _autograd._saved_tensors_hooks_disable("not here")
        forward_ad._set_fwd_grad_enabled(False).__enter__()
        torch._C._functorch._grad_increment_nesting()
        if raises:
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"), unwound():
        flips(raises=True)
    assert switches() == before
    with modes_put_back():
        flips(raises=False)
    assert switches() == before
    with modes_put_back():
        with unwound():
            flips(raises=False)
        # A call that comes to its end may switch what it likes.
        assert {name for name, value in switches().items() if value != before[name]} == FLIPPED


class ClampsItself(nn.Module):
    """Gives its weight other memory, which no export follows."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.layer.weight.data = self.layer.weight.data.clamp(-0.2, 0.2)
        return self.layer(x)


def scaled_gradient(x: torch.Tensor) -> torch.Tensor:
    return torch.func.grad(lambda one: (one / 4).sum())(x)


@pytest.mark.parametrize("model", [ClampsItself, lambda: scaled_gradient], ids=["clamps", "gradient"])
def test_a_way_of_capture_that_fails_does_not_stand_in_the_way_of_the_next(model: Callable[[], Any]) -> None:
    before = switches()
    with pytest.raises(CaptureError):
        capture(model(), (torch.ones(4, 3),), "export")
    assert switches() == before
    found = capture(model(), (torch.ones(4, 3),), "auto")
    assert switches() == before
    x = torch.randn(4, 3)
    torch.testing.assert_close(found.run(x), found.runner.module(x) if isinstance(model, type) else model()(x))


def test_a_model_that_switches_a_mode_switches_none_by_being_captured() -> None:
    def stops_gradients(x: torch.Tensor) -> torch.Tensor:
        torch.set_grad_enabled(False)
        return x * 2

    for method in ("dynamo", "export", "auto"):
        capture(stops_gradients, (torch.ones(3),), method)
        assert torch.is_grad_enabled(), method


class MakesABuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.mean is None:
            self.mean = x.mean(0).detach()
        return x - self.mean


def doubled_data(x: torch.Tensor) -> torch.Tensor:
    return (x * 3).data * 2


@pytest.mark.parametrize("model", [MakesABuffer, lambda: doubled_data], ids=["buffer", "data"])
def test_stand_ins_that_export_leaves_are_a_failure_of_export_alone(model: Callable[[], Any]) -> None:
    with pytest.raises(CaptureError, match=r"the model changes or makes mean|fake tensor"):
        capture(model(), (torch.ones(4, 3),), "export")
    x = torch.randn(4, 3)
    assert capture(model(), (x.clone(),), "auto").run(x.clone()).equal(model()(x.clone()))

"""`torch.compile(model, backend="fxopt")`, without importing anything of fxopt."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

from fxopt_core.optimizer import PipelineResult


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch.cos(x)
        return (torch.sin(self.linear(x)) * torch.sin(self.linear(x))).sum()


def gradients(function: Any, model: Model, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    model.zero_grad()
    loss = function(x)
    loss.backward()
    return loss.detach(), [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("then", ["inductor", "aot_eager", "eager"])
def test_training_works_through_it(then: str) -> None:
    torch.manual_seed(0)
    model, x = Model(), torch.randn(3, 4)
    seen: list[PipelineResult] = []
    compiled = torch.compile(model, backend="fxopt", options={"then": then, "report": seen.append})
    loss, wanted = gradients(model, model, x)
    compiled_loss, found = gradients(compiled, model, x)
    torch.testing.assert_close(compiled_loss, loss)
    torch.testing.assert_close(found, wanted)
    rules = [rewrite.rule for result in seen for rewrite in result.rewrites]
    assert rules.count("dead_code") == 1
    assert rules.count("common_subexpressions") == 2


def test_sizes_may_vary() -> None:
    model = Model()
    compiled = torch.compile(model, backend="fxopt", options={"then": "eager"}, dynamic=True)
    for size in (2, 3, 7):
        x = torch.randn(size, 4)
        torch.testing.assert_close(compiled(x), model(x))


def test_it_is_there_without_an_import() -> None:
    code = (
        "import torch\n"
        "compiled = torch.compile(lambda x: x.sin() + x.sin(), backend='fxopt', options={'then': 'eager'})\n"
        "x = torch.randn(3)\n"
        "assert torch.equal(compiled(x), x.sin() + x.sin())\n"
        "import sys; assert 'fxopt_core.backend' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"then": "nope"}, "cannot hand on to 'nope'; expected one of"),
        ({"then": "fxopt"}, "cannot hand on to 'fxopt'"),
        ({"pases": "exact"}, r"unknown options \['pases'\]; expected passes, then, report"),
        ({"passes": "inferense"}, "Did you mean 'inference'"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        torch.compile(Model(), backend="fxopt", options=options)(torch.randn(3, 4))


def test_modes_belong_to_inductor() -> None:
    with pytest.raises(Exception, match="mode is 'max-autotune'"):
        torch.compile(Model(), backend="fxopt", mode="max-autotune")(torch.randn(3, 4))

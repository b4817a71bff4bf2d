"""What a saved graph says about the model: a call changes it only where it does."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import fx, nn
from typer.testing import CliRunner

from fxopt_core.capture import capture
from fxopt_core.verification.state import State
from fxopt_workbench.cli import app

CHANGES = "A call of the model changes"
X = torch.randn(2, 4, generator=torch.Generator().manual_seed(0))


class Counts(nn.Module):
    """Holds how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x + 1


class Accumulates(nn.Module):
    """Adds up its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))
        return x + self.total


STATELESS = {
    "module": lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout()).eval(),
    "traced": lambda: fx.symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()),
    "exported": lambda: torch.export.export(nn.Linear(4, 4).eval(), (X,)).module(),
    "inside": lambda: nn.Sequential(fx.symbolic_trace(nn.Linear(4, 4)), nn.ReLU()).eval(),
}


@pytest.mark.parametrize("kind", STATELESS)
@pytest.mark.parametrize("method", ["export", "dynamo"])
def test_a_model_that_a_call_leaves_alone_is_not_said_to_change(kind: str, method: str) -> None:
    captured = capture(STATELESS[kind](), (X,), method)
    assert not [caveat for caveat in captured.caveats if CHANGES in caveat]


def test_a_model_that_a_call_changes_is_still_told_of() -> None:
    (told,) = [caveat for caveat in capture(Counts(), (X,), "export").caveats if CHANGES in caveat]
    assert "self.calls" in told


def test_what_a_graph_module_holds_is_compared() -> None:
    module = fx.symbolic_trace(nn.Sequential(nn.BatchNorm1d(4)))
    before = State(module)
    module(torch.ones(3, 4))
    running = {"running_mean", "running_var", "num_batches_tracked"}
    assert set(before.changes()) == {f"0.{name}" for name in running}
    before.put_back()
    assert not before.changes()


@pytest.mark.parametrize("command", [("extract",), ("optimize",)])
def test_the_saved_file_says_so_too(command: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "graph.py"
    result = CliRunner().invoke(app, [*command, "--model", "mlp", "--device", "cpu", "--save-graph", str(path)])
    assert result.exit_code == 0, result.output
    assert "What the graphs do not say about the model" in path.read_text()
    assert CHANGES not in path.read_text()

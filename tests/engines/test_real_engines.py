"""The engines themselves, on one tiny model: they compute what the graph computes, and what they compiled is kept."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from fxopt_core.optimizer import GraphOptimizer
from fxopt_core.optimizer.engines import GROUP, Request, Taken, find_engine
from fxopt_core.verification import Tolerance
from fxopt_workbench.cli import app
from fxopt_workbench.engines import Auto, Decision, StaleError, Trial, registry
from fxopt_workbench.engines.decision import base_versions, digest, machine
from fxopt_workbench.engines.module import FlatEngine
from fxopt_workbench.engines.places import place_of
from fxopt_workbench.engines.trying import compare

TOLERANCE = Tolerance(1.3e-4, 2e-6)
NAMES = ("eager", "inductor", "inductor-freezing", "onnxruntime", "openvino")


class Tiny(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        maps = torch.relu(self.norm(self.conv(x)))
        return {"maps": maps.transpose(1, 2), "scores": self.head(maps.mean((2, 3)) * mask)}


@dataclasses.dataclass
class TakenUntried:
    """An engine that is taken without being tried, with a decision that can be saved."""

    name: str
    folder: Path

    def __call__(self, request: Request) -> Taken:
        stands = place_of(request)
        engine = registry.load(registry.references()[self.name])
        own = self.folder / self.name
        own.mkdir(parents=True)
        with torch.no_grad():
            module = stands.over(engine, own, 1)
        made = digest(stands.program.graph, stands.program.example)
        trials = (Trial("eager", 0.0, (2.0,), 0.0), Trial(self.name, 1.0, (1.0,), 0.0))
        versions = base_versions() | engine.versions()
        return Taken(
            module,
            Decision(self.name, "it was told", trials, TOLERANCE, 60, 1, 1, machine(), versions, made, self.folder),
        )


@pytest.fixture(scope="module")
def optimizer() -> GraphOptimizer:
    torch.manual_seed(0)
    model = Tiny().eval()
    return GraphOptimizer(model, {"x": torch.randn(2, 3, 6, 7), "mask": torch.ones(2, 4)})


def test_every_engine_is_registered_and_found_by_name() -> None:
    assert tuple(registry.references()) == NAMES
    assert isinstance(find_engine("auto"), Auto)
    with pytest.raises(ValueError, match="openvino"):
        find_engine("openvin")
    with pytest.raises(ValueError, match="openvino"):
        Auto(only=("openvin",))(None)  # type: ignore[arg-type]
    assert GROUP in Path("pyproject.toml").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_it_computes_what_the_graph_computes(optimizer: GraphOptimizer, name: str, tmp_path: Path) -> None:
    result = optimizer.optimize("inference")
    request = Request(result.module, optimizer.example_inputs, TOLERANCE, False, optimizer.verify)  # type: ignore[arg-type]
    program = place_of(request).program
    engine = registry.load(registry.references()[name])
    assert not engine.objection(program, gradients=False)
    own = tmp_path / name
    own.mkdir()
    with torch.no_grad():
        run = engine.build(program, own, 1)
        found = compare(program, run, TOLERANCE, gradients=False)
    assert not found["refusal"]
    assert found["error"] < 1e-5


def test_a_decision_is_saved_with_the_artefact_and_taken_up_again(
    optimizer: GraphOptimizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = optimizer.optimize("inference", engine=TakenUntried("onnxruntime", tmp_path / "work"))
    decision = result.report.engine
    assert isinstance(decision, Decision)
    saved = decision.save(tmp_path / "kept")
    assert json.loads((saved / "decision.json").read_text()) == decision.as_json()

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("exported anew")

    monkeypatch.setattr(torch.onnx, "export", refuse)
    again = optimizer.optimize("inference", engine=Decision.load(tmp_path / "kept"))
    assert again.report.engine == decision
    assert again.module.engine.name == "onnxruntime"
    inputs: Any = optimizer.example_inputs
    with torch.no_grad():
        torch.testing.assert_close(again.module(**inputs), optimizer.model(**inputs))


def test_a_decision_for_something_else_is_refused(optimizer: GraphOptimizer, tmp_path: Path) -> None:
    decision = optimizer.optimize("exact", engine=TakenUntried("eager", tmp_path)).report.engine
    assert isinstance(decision, Decision)
    decision.save(tmp_path / "kept")
    with pytest.raises(StaleError, match="another graph"):
        optimizer.optimize("inference", engine=Decision.load(tmp_path / "kept"))
    older = dataclasses.replace(decision, versions=decision.versions | {"torch": "1.0"})
    older.save(tmp_path / "old")
    with pytest.raises(StaleError, match=r"torch 1\.0, here"):
        Decision.load(tmp_path / "old")


def test_the_report_the_picture_and_its_text_twin(optimizer: GraphOptimizer, tmp_path: Path) -> None:
    result = optimizer.optimize("exact", engine=TakenUntried("eager", tmp_path))
    trials = (
        Trial("eager", 0.0, (2.0, 2.2, 1.8), 0.0),
        Trial("fast", 1.0, (1.0, 1.1, 0.9), 1e-6),
        Trial("hung", refusal="it was not ready within 45 s, and was ended"),
    )
    decision = dataclasses.replace(result.report.engine, trials=trials, taken="fast")  # type: ignore[type-var]
    assert "fast: 1 s (950 ms to 1.05 s), 2.00× as fast as eager (2.00× to 2.00×), taken." in decision.alt_text() or (
        "2.00× as fast as eager" in decision.alt_text()
    )
    assert "Refused: hung (it was not ready" in decision.alt_text()
    assert decision.draw(tmp_path / "engines.svg").read_text().count("<path") > 5
    assert "hung" in decision.draw(tmp_path / "engines.txt").read_text()
    assert decision.as_json()["trials"][1]["speed_up"]["median"] == 2
    assert json.dumps(result.report.as_json()["engine"])


def test_inside_torch_compile_weights_that_change_count(tmp_path: Path) -> None:
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).eval()
    made: list[Any] = []

    def engine(request: Request) -> Taken:
        taken = TakenUntried("onnxruntime", tmp_path / str(len(made)))(request)
        assert request.compare(taken.module, tolerance=TOLERANCE, gradients="none", adversarial=False)
        made.append(taken.module)
        return Taken(taken.module, taken.decision)

    compiled = torch.compile(model, backend="fxopt", options={"engine": engine})
    with torch.no_grad():
        for size in (5, 6, 7, 8):
            x = torch.randn(size, 3)
            torch.testing.assert_close(compiled(x), model(x))
        assert isinstance(made[0], FlatEngine)
        assert made[0].fallbacks == 0
        model[0].bias.fill_(3.0)
        torch.testing.assert_close(compiled(x), model(x))
    assert len(made) == 2, "a new size made one graph of open sizes, and no more"
    compiled(torch.randn(5, 3)).sum().backward()
    assert model[0].weight.grad is not None


def test_the_command_refuses_what_it_does_not_know() -> None:
    for arguments, words in (
        (["--engine", "openvin"], "openvino"),
        (["--engine-seconds", "3"], "--engine auto"),
        (["--engine", "auto", "--engine-seconds", "0"], "budget"),
    ):
        answer = CliRunner().invoke(app, ["optimize", "--model", "simple", *arguments])
        assert answer.exit_code == 2
        assert words in answer.output

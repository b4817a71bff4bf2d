"""`fxopt bench models`: what is wrong or does not run is shown as such. No time is asserted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from fxopt_workbench.bench import bench_models
from fxopt_workbench.bench.bench_models import AUTO, REFERENCE, ModelRow, compare, summarize
from fxopt_workbench.bench.compared_models import NAMES, compared_model
from fxopt_workbench.cli import app

Made = Iterator[tuple[str, Callable[[], Callable[..., Any]]]]


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x * self.weight,)


INPUTS = {"x": torch.tensor([1.0, -2.0, 0.5])}


def scripted(model: nn.Module, inputs: Any, folder: Path, engine_seconds: float) -> Made:
    def refuse() -> Callable[..., Any]:
        raise RuntimeError("this engine takes no such model\nand says more")

    yield REFERENCE, lambda: model
    yield "off by a quarter", lambda: lambda *args, **kwargs: [bench_models._tensors(model(*args, **kwargs))[0] + 0.25]
    yield "one output too few", lambda: lambda *_, **__: []
    yield "refuses", refuse
    yield AUTO, lambda: model


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModelRow]:
    monkeypatch.setattr(bench_models, "candidates", scripted)
    return {row.candidate: row for row in compare("scale", Scale(), INPUTS, repeats=3)}


def test_errors_are_measured_against_eager_in_double_precision(rows: dict[str, ModelRow]) -> None:
    assert rows[REFERENCE].error == 0
    assert rows[REFERENCE].speed_up == 1
    assert rows["off by a quarter"].error == 0.25
    assert rows[AUTO].taken == REFERENCE


def test_what_cannot_be_compared_or_run_says_why(rows: dict[str, ModelRow]) -> None:
    assert rows["refuses"].failure == "RuntimeError: this engine takes no such model"
    assert rows["refuses"].seconds is None
    few = rows["one output too few"]
    assert few.failure is not None
    assert "shapes" in few.failure


def test_the_candidates_compute_what_the_model_computes(tmp_path: Path) -> None:
    made = dict(bench_models.candidates(Scale().eval(), INPUTS, tmp_path, 60.0))
    engines = ("inductor", "inductor-freezing", "onnxruntime", "openvino")
    assert [*made] == [
        REFERENCE,
        "torch.compile",
        "fxopt, then eager",
        *(name for engine in engines for name in (engine, f"fxopt, then {engine}")),
        AUTO,
    ]
    with torch.no_grad():
        for name in (REFERENCE, "fxopt, then eager", "onnxruntime", "fxopt, then openvino"):
            (result,) = made[name]()(**INPUTS)
            assert torch.equal(result, torch.tensor([2.0, -4.0, 1.0])), name


def row(model: str, candidate: str, speed_up: float | None, **more: Any) -> ModelRow:
    return ModelRow(model, candidate, speed_up and 1 / speed_up, 0.0, speed_up, 0.0, **more)


def test_auto_is_compared_with_the_best_single_engine() -> None:
    made = [
        *(row(model, REFERENCE, 1.0) for model in "ab"),
        row("a", "one", 2.0),
        row("b", "one", 1.0),
        row("a", "two", 1.0),
        row("b", "two", 4.0),
        # Not on every model, so that it is not the best over all.
        row("a", "partial", 9.0),
        row("b", "partial", None, failure="cannot"),
        # After the passes it is no engine by itself.
        row("a", "fxopt, then one", 50.0),
        row("a", AUTO, 2.0, taken="one"),
        row("b", AUTO, 8.0, taken="two"),
    ]
    summary = summarize(made)
    assert summary["best_single_engine"] == "two"
    assert summary["auto_over_best_single_engine"] == pytest.approx(4.0 / 2.0)
    assert summary["best_choice_over_best_single_engine"] == pytest.approx((50.0 * 4.0) ** 0.5 / 2.0)
    assert summary["models"]["a"]["auto_over_best"] == pytest.approx(2 / 9)
    assert summary["models"]["b"] == {"auto": 8.0, "taken": "two", "best_engine": "two", "auto_over_best": 2.0}


def test_what_the_passes_gain_is_beside_the_same_engine() -> None:
    medians = {"one": 3.0, "fxopt, then one": 2.0, "fxopt, then two": 1.0, AUTO: 1.0}
    assert bench_models._gain("fxopt, then one", medians) == 1.5
    assert [bench_models._gain(name, medians) for name in ("one", "fxopt, then two", AUTO)] == [None] * 3


def test_the_command_prints_tables_or_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_models, "candidates", scripted)
    arguments = ["bench", "models", "--tiny", "--only", "resnet50", "--repeats", "1"]
    answer = CliRunner().invoke(app, [*arguments, "--json"])
    assert answer.exit_code == 0, answer.output
    document = json.loads(answer.stdout)
    written = {row["candidate"]: row for row in document["rows"]}
    assert written.keys() == {REFERENCE, "off by a quarter", "one output too few", "refuses", AUTO}
    assert written["off by a quarter"]["model"] == "resnet50"
    assert document["summary"]["models"]["resnet50"]["taken"] == REFERENCE
    printed = CliRunner().invoke(app, arguments).output
    assert "could not run it" in printed
    assert "Geometric means" in printed


@pytest.mark.parametrize("name", NAMES)
def test_the_small_version_of_each_model_runs(name: str) -> None:
    model, inputs = compared_model(name, tiny=True)
    with torch.no_grad():
        model(**inputs) if isinstance(inputs, dict) else model(*inputs)


def test_unknown_names_are_bad_input() -> None:
    for option, given in (("--only", "resnot50"), ("--attention", "flash"), ("--clock", "sun")):
        answer = CliRunner().invoke(app, ["bench", "models", option, given])
        assert answer.exit_code == 2
        assert given in answer.output

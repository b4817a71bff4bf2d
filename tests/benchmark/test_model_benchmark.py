"""`fxopt bench models`: what is wrong or does not run is shown as such. No time is asserted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from fxopt_workbench.bench import bench_models
from fxopt_workbench.bench.bench_models import REFERENCE, ModelRow, compare
from fxopt_workbench.cli import app

Runs = Iterator[tuple[str, Callable[[], Callable[[], Any]]]]


class Scale(nn.Module):
    """Takes a keyword argument, as the models of the zoo do."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x * self.weight,)


INPUTS = {"x": torch.tensor([1.0, -2.0, 0.5])}


def scripted(model: nn.Module, inputs: dict[str, Any]) -> Runs:
    def refuse() -> Callable[[], Any]:
        raise RuntimeError("this peer takes no such model\nand says more")

    yield REFERENCE, lambda: lambda: model(**inputs)
    yield "off by a quarter", lambda: lambda: [model(**inputs)[0] + 0.25]
    yield "one output too few", lambda: list
    yield "refuses", refuse


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModelRow]:
    monkeypatch.setattr(bench_models, "candidates", scripted)
    return {row.candidate: row for row in compare("scale", Scale(), INPUTS, repeats=3)}


def test_errors_are_measured_against_eager_in_double_precision(rows: dict[str, ModelRow]) -> None:
    assert rows[REFERENCE].error == 0
    assert rows[REFERENCE].speed_up == 1
    assert rows["off by a quarter"].error == 0.25


def test_what_cannot_be_compared_or_run_says_why(rows: dict[str, ModelRow]) -> None:
    assert rows["refuses"].failure == "RuntimeError: this peer takes no such model"
    assert rows["refuses"].seconds is None
    few = rows["one output too few"]
    assert few.failure is not None
    assert "shapes" in few.failure


def test_the_candidates_compute_what_the_model_computes() -> None:
    made = dict(bench_models.candidates(Scale().eval(), INPUTS))
    assert {REFERENCE, "fxopt, then eager", "fxopt, then Inductor", "Inductor", "Inductor, freezing"} <= made.keys()
    with torch.no_grad():
        for name in (REFERENCE, "fxopt, then eager", "Inductor, freezing"):
            (result,) = made[name]()()
            assert torch.equal(result, torch.tensor([2.0, -4.0, 1.0])), name


def test_the_command_prints_a_table_or_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_models, "candidates", scripted)
    arguments = ["bench", "models", "--tiny", "--only", "resnet", "--repeats", "1"]
    answer = CliRunner().invoke(app, [*arguments, "--json"])
    assert answer.exit_code == 0, answer.output
    written = {row["candidate"]: row for row in json.loads(answer.stdout)}
    assert written.keys() == {REFERENCE, "off by a quarter", "one output too few", "refuses"}
    assert written["off by a quarter"]["model"] == "resnet"
    assert "could not run it" in CliRunner().invoke(app, arguments).output


def test_an_unknown_model_is_bad_input() -> None:
    answer = CliRunner().invoke(app, ["bench", "models", "--only", "resnot"])
    assert answer.exit_code == 2
    assert "resnot" in answer.output
    assert "resnet" in answer.output

"""What commands do with code that is not ours: a model, or its factory, may print, end Python or fail."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from fxopt_workbench.cli import app
from fxopt_workbench.zoo.registry import SWITCHED

MINE = """
import os
import sys
import torch
from torch import nn

print("hello from the module")


class Model(nn.Module):
    def __init__(self, act=lambda: None):
        super().__init__()
        self.layer, self.dropout, self.act = nn.Linear(3, 3), nn.Dropout(0.5), act

    def forward(self, x):
        self.act()
        return self.dropout(self.layer(x))


def loud():
    print("hello from the factory")
    os.write(1, b"hello past Python")
    os.system("echo hello from another process")
    return Model(lambda: print("hello from forward", file=sys.__stdout__)), (torch.ones(2, 3),)


def ends():
    return Model(lambda: sys.exit(0)), (torch.ones(2, 3),)


def ends_while_built():
    sys.exit(3)


def fails():
    def fail():
        raise RuntimeError("not today")

    return Model(fail), (torch.ones(2, 3),)


def misshaped():
    return Model(), (torch.ones(2, 4),)


def in_training():
    return Model(), (torch.ones(2, 3),)


def in_evaluation():
    return Model().eval(), (torch.ones(2, 3),)


def reads_values():
    class Branch(nn.Module):
        def forward(self, x):
            return x * 2 if x.sum() > 0 else x - 1

    return Branch(), (torch.ones(2, 3),)
"""

NAME = "my_models_of_commands"


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / f"{NAME}.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield
    sys.modules.pop(NAME, None)


def fxopt(command: str, factory: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, [command, "--model", f"{NAME}:{factory}", *arguments, "--device", "cpu"])


COMMANDS = ("analyze", "extract", "optimize")


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_model_prints_goes_to_stderr_under_json(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    answer = fxopt(command, "loud", "--json")
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout)["model"] == f"{NAME}:loud"
    assert "hello from the module" in answer.stderr
    assert "hello from the factory" in answer.stderr
    # The file descriptors themselves, which the command's streams are not while it is tested.
    past = capfd.readouterr()
    assert past.out == ""
    assert "hello past Python" in past.err
    assert "hello from another process" in past.err
    assert "hello from forward" in past.err
    fxopt(command, "loud")
    assert "hello past Python" in capfd.readouterr().out, "without --json it stays where it was printed"


@pytest.mark.parametrize("command", COMMANDS)
def test_code_that_ends_python_is_said_and_is_no_success(command: str) -> None:
    answer = fxopt(command, "ends")
    assert answer.exit_code == 1
    assert f"fxopt {command}: the code that it ran ended Python with exit code 0 at " in answer.stderr
    assert f"{NAME}.py:" in answer.stderr
    assert answer.stdout.removeprefix("hello from the module\n") == ""
    answer = fxopt(command, "ends_while_built")
    assert answer.exit_code == 2
    assert f"the factory {NAME}:ends_while_built failed: SystemExit: 3 ({NAME}.py, line " in answer.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_model_that_fails_by_itself_is_told_from_one_that_cannot_be_captured(command: str) -> None:
    failed = fxopt(command, "fails")
    assert failed.exit_code == 1
    assert "the model itself fails on these example inputs" in failed.stderr
    assert f"{NAME}.py:" in failed.stderr
    assert "not today. Try this: call model(*example_inputs)" in failed.stderr
    assert failed.stderr.count("\n") == 1
    misshaped = fxopt(command, "misshaped")
    assert misshaped.exit_code == 1
    assert "the model itself fails on these example inputs" in misshaped.stderr
    assert "fxopt_" not in misshaped.stderr, "no line of ours is to blame"


def test_a_model_that_reads_values_is_not_said_to_fail() -> None:
    answer = fxopt("analyze", "reads_values")
    assert answer.exit_code == 1
    assert "itself fails" not in answer.stderr
    assert 'torch.where, torch.cond). Or capture the model in Python: "capture"' in answer.stderr


def test_torch_prints_no_traceback_of_a_model_that_is_analysed(caplog: pytest.LogCaptureFixture) -> None:
    fxopt("analyze", "misshaped")
    assert [record.name for record in caplog.records if record.name.startswith("torch")] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_that_a_model_was_set_to_evaluation_mode_is_said(command: str) -> None:
    caveats = json.loads(fxopt(command, "in_training", "--json").stdout)["caveats"]
    assert SWITCHED in caveats
    assert SWITCHED in fxopt(command, "in_training").stdout.replace(" \n", " ").replace("\n", " ")
    assert SWITCHED not in json.loads(fxopt(command, "in_evaluation", "--json").stdout)["caveats"]


def test_the_preset_for_training_keeps_the_mode() -> None:
    kept = json.loads(fxopt("optimize", "in_training", "--preset", "training", "--json").stdout)
    assert SWITCHED not in kept["caveats"]
    # Dropout draws random numbers in training mode only.
    assert any("random" in refusal["reason"] for refusal in kept["refusals"])
    assert fxopt("optimize", "in_evaluation", "--preset", "training").exit_code == 0

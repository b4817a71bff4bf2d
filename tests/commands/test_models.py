"""What the commands say of models that cannot be had, the same way everywhere."""

import pytest
import torch
from typer.testing import CliRunner

from fxopt_workbench import zoo
from fxopt_workbench.cli import app
from fxopt_workbench.commands.models import build_to_run, chosen_names
from fxopt_workbench.hardware import this_machine


@pytest.mark.parametrize("command", ["extract", "optimize"])
def test_a_model_too_large_is_refused_with_its_size_before_it_is_built(command, monkeypatch):
    pytest.importorskip("transformers")
    built = []
    build = zoo.build

    def noted(name, device=None, *args, **kwargs):
        built.append(str(device))
        return build(name, device, *args, **kwargs)

    monkeypatch.setattr(zoo, "build", noted)
    monkeypatch.setattr(this_machine, "memory_bytes", lambda device: 500 * 2**20)
    answer = CliRunner().invoke(app, [command, "--model", "bert-base", "--device", "cpu"])
    assert answer.exit_code == 2
    assert "bert-base needs at least 835 MiB to be captured and run; cpu has 500 MiB" in answer.stderr
    assert "fxopt analyze --model bert-base" in answer.stderr
    assert built == ["meta"]


def test_a_model_that_fits_is_built(monkeypatch):
    monkeypatch.setattr(this_machine, "memory_bytes", lambda device: 2**20)
    assert build_to_run("simple", torch.device("cpu")).description


@pytest.mark.parametrize("command", ["extract", "analyze", "optimize"])
def test_a_file_that_needs_trust_is_refused_and_loaded_with_it(command, tmp_path):
    torch.save((torch.nn.Linear(3, 5), (torch.ones(2, 3),)), tmp_path / "pair.pt")
    arguments = [command, "--model", str(tmp_path / "pair.pt"), "--device", "cpu"]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 2
    assert answer.stdout == ""
    assert answer.stderr.startswith(f"fxopt {command}: ")
    assert "--trust" in answer.stderr
    assert answer.stderr.count("\n") == 1
    trusted = CliRunner().invoke(app, [*arguments, "--trust"])
    assert trusted.exit_code == 0, trusted.output
    assert f"From the file {tmp_path / 'pair.pt'}" in trusted.output or "aten.linear.default" in trusted.output


def test_names_are_chosen_from_what_is_known():
    assert chosen_names("pass", None, ["a", "b"]) == ["a", "b"]
    assert chosen_names("pass", " b, a,b", ["a", "b"]) == ["b", "a"]
    with pytest.raises(ValueError, match=r"there is no pass 'fold'\. Did you mean 'folds'"):
        chosen_names("pass", "fold", ["folds", "other"])
    with pytest.raises(ValueError, match=r"They are 0, 1, .*, 11…"):
        chosen_names("pass", "none", [str(number) for number in range(20)])
    with pytest.raises(ValueError, match="does not name any pass"):
        chosen_names("pass", ",", ["a"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze", "--model", "simple", "--compare", ","],
        ["analyze", "--model", "simple", "--hardware", " "],
        ["analyze", "--model", "simple", "--compare", ""],
        ["extract", "--compare", ","],
    ],
    ids=" ".join,
)
def test_a_list_without_names_is_refused(arguments):
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 2
    assert "expected names with commas between them" in answer.stderr
    assert answer.stdout == ""

"""The demonstration of unit 3: it names the right kernels, and runs without Jupyter."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from fxopt_workbench.internals.u3_dispatcher import SPACE, compare, highest_key, reasons, situations


def test_each_situation_begins_at_the_key_that_its_name_says() -> None:
    with torch.library._scoped_library(SPACE, "DEF") as library:
        chosen = situations(2, library)
        assert {one.name: one.highest for one in chosen} == {
            "an ordinary tensor": "AutogradCPU",
            "it asks for gradients": "AutogradCPU",
            "the same, no_grad": "AutogradCPU",
            "inference_mode": "BackendSelect",
            "autocast": "AutocastCPU",
            "a mode that passes on": "PythonTLSSnapshot",
            "composite, in Python": "AutogradCPU",
            "kernel in Python": "AutogradCPU",
        }
        table = compare(chosen, 2, repeats=1)
    assert [row[0] for row in table.rows] == [one.name for one in chosen]
    assert table.rows[0][3] == "1.0"


def test_both_operators_in_python_add() -> None:
    with torch.library._scoped_library(SPACE, "DEF") as library:
        situations(1, library)
        for name in ("composite", "on_cpu"):
            assert torch.equal(getattr(getattr(torch.ops, SPACE), name)(torch.ones(2)), torch.full((2,), 2.0))


def test_reasons_are_those_of_the_tables() -> None:
    [relu, linear] = reasons("aten::relu", "aten::linear").rows
    assert relu[1:5] == ("kernel", "kernel", "falls through", "autograd kernel")
    assert linear[1] == linear[4] == "math kernel"
    with pytest.raises(LookupError, match=r"no operator 'aten::nothing'; write it as in aten::add.Tensor"):
        reasons("aten::nothing")


def test_what_cannot_be_shown_is_refused() -> None:
    with (
        pytest.raises(ValueError, match="at least 1 call, not 0"),
        torch.library._scoped_library(SPACE, "DEF") as library,
    ):
        situations(0, library)
    with pytest.raises(ValueError, match="no tensor is given"):
        highest_key()


def test_it_runs_without_jupyter_and_prints_its_profile() -> None:
    command = [sys.executable, "-m", "fxopt_workbench.internals.u3_dispatcher", "--calls", "3", "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    for name in ("an ordinary tensor", "autocast", "a mode that passes on", "kernel in Python"):
        assert f"situation: {name}" in done.stdout, "no range of the profile has this name"
    assert "What fills the entries" in done.stdout
    assert "Self CPU" in done.stdout
    assert "aten::add" in done.stdout

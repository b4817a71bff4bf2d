"""The demonstration of unit 8: its steps come to what they say, and it runs without Jupyter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fxopt_workbench.internals.u8_contributing import compare, saved_bytes, training, walk


def test_each_step_comes_to_what_it_says(tmp_path: Path) -> None:
    assert {name: said for name, _, said in walk(tmp_path).rows} == {
        "torchgen reads the entries": "smooth_abs, smooth_abs.out",
        "formula from the input": "SmoothAbsBackward0 saves self",
        "formula from the result": "SmoothAbsBackward0 saves self and result",
        "the mirror builds it": "kernels for CPU and Meta, and a derivative",
        "gradcheck, twice": "passed",
        "review of a series": "4 commits, 0 objections",
        "git bisect": "Return early for small numbers, 7 tests",
    }


def test_a_formula_saves_what_it_names() -> None:
    bytes_of_a_vector = 4 * 100
    saved = training(100, lambda ways: {name: saved_bytes(way) for name, way in ways.items()})
    assert saved["from the input"] == bytes_of_a_vector
    assert saved["from the result"] == 2 * bytes_of_a_vector
    table = training(10, lambda ways: compare(ways, repeats=1))
    assert [row[0] for row in table.rows] == ["left to autograd", "from the input", "from the result"]


def test_what_cannot_be_shown_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 element, not 0"):
        training(0, dict)


def test_it_runs_without_jupyter_and_prints_its_profile() -> None:
    command = [sys.executable, "-m", "fxopt_workbench.internals.u8_contributing", "--elements", "10", "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    for name in ("left to autograd", "from the input", "from the result"):
        assert f"derivative: {name}" in done.stdout, "no range of the profile has this name"
    assert "From an entry to a culprit" in done.stdout
    assert "Self CPU" in done.stdout

"""The demonstration of unit 5: its ways compute the same, and it runs without Jupyter."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from fxopt_workbench.internals.u5_operators import compare, ways


def test_all_ways_compute_the_same_and_only_operators_are_seen() -> None:
    chosen = ways(1003)
    first, *others = [one.run() for one in chosen]
    for found in others:
        torch.testing.assert_close(found, first)
    assert {one.name: one.seen for one in chosen} == {
        "TensorIterator, vectors": "an operator",
        "accessor, number by number": "an operator",
        "three operators of PyTorch": "three operators",
        "a plain function, by pointers": "nothing",
    }
    table = compare(chosen, repeats=1)
    assert table.rows[0][4] == "1.0"
    assert [row[2] for row in table.rows][2] != table.rows[0][2]


def test_what_cannot_be_shown_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 number is needed, not 0"):
        ways(0)


def test_it_runs_without_jupyter_and_prints_its_profile() -> None:
    command = [sys.executable, "-m", "fxopt_workbench.internals.u5_operators", "--numbers", "5000", "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert "TensorIterator, vectors" in done.stdout
    assert "way: a plain function, by pointers" in done.stdout
    assert "fxopt_unit5::vectors" in done.stdout
    assert "Self CPU" in done.stdout

"""The demonstration of unit 2 as a script: it runs, and what it compares is the same work."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from fxopt_workbench.internals.u2_tensors import STEPS, compare, experiments


def test_every_way_of_an_experiment_does_the_same_amount_of_work() -> None:
    for experiment in experiments(64):
        sizes = [run().numel() for run in experiment.ways.values()]
        assert len(sizes) >= 2
        assert len(set(sizes)) == 1, experiment.title


def test_layouts_differ_and_values_do_not() -> None:
    _, reading, pooling, rows = experiments(64)
    assert [int(name.split()[-1]) for name in list(reading.ways)[1:]] == list(STEPS[1:])
    contiguous, last = (run() for run in pooling.ways.values())
    assert torch.equal(contiguous, last)
    assert not contiguous.is_contiguous(memory_format=torch.channels_last)
    assert last.is_contiguous(memory_format=torch.channels_last)
    view, copy = (run() for run in rows.ways.values())
    assert torch.equal(view, copy)
    assert view._is_view()
    assert not copy._is_view()


def test_a_table_compares_with_the_first_way() -> None:
    table = compare(experiments(64)[0], repeats=2)
    assert [row[0] for row in table.rows] == ["both row by row", "one of them transposed"]
    assert table.rows[0][2] == "1.0"
    with pytest.raises(ValueError, match="repeats"):
        compare(experiments(64)[0], repeats=0)


def test_matrices_that_are_too_small_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 64 rows and columns to show anything, not 32"):
        experiments(32)


def test_it_runs_without_jupyter_and_prints_its_profile() -> None:
    command = [sys.executable, "-m", "fxopt_workbench.internals.u2_tensors", "--side", "64", "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    for experiment in experiments(64):
        assert experiment.title.capitalize() in done.stdout
        for name in experiment.ways:
            assert f"{experiment.title.split()[0]}: {name}" in done.stdout, "no range of the profile has this name"
    assert "Self CPU" in done.stdout
    assert "aten::add" in done.stdout

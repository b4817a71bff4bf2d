"""The demonstration of unit 7: it packages, runs and compares, and says what is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fxopt_workbench.internals import u7_ecosystem as shipping
from fxopt_workbench.internals import u7_ranks

needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler is here")


def test_every_way_that_needs_no_compiler_is_right_and_counts_as_the_table_says() -> None:
    pytest.importorskip("onnxruntime")
    chosen = [shipping.WAYS[name]() for name in ("eager", "torch.export", "ONNX Runtime")]
    assert [shipping.right_for(one, 7) for one in chosen] == ["right"] * 3
    assert [shipping.right_for(one, shipping.LARGEST + 1) for one in chosen] == ["right", "refused", "right"]
    table = shipping.compare(chosen, 1, repeats=1)
    assert [row[0] for row in table.rows] == ["eager", "torch.export", "ONNX Runtime"]


def test_what_is_not_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "absent", lambda *packages: list(packages))
    with pytest.raises(shipping.MissingError, match="not here: onnx, onnxscript, onnxruntime"):
        shipping.with_onnx(shipping.exported())
    with pytest.raises(shipping.MissingError, match="extra `edge`"):
        shipping.with_executorch(shipping.exported())
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(shipping.MissingError, match="'no-such-compiler' is not here"):
        shipping.cpp_runner()


@needs_a_compiler
def test_the_package_runs_in_cpp_and_counts_there() -> None:
    x = torch.randn(5, shipping.WIDTH, generator=torch.Generator().manual_seed(1))
    found = shipping.run_in_cpp(shipping.with_aoti(shipping.exported()), x, calls=3)
    with torch.no_grad():
        torch.testing.assert_close(found.output, shipping.small()(x)[0])
    # With torch 2.13 the first counter is worked out while it compiles, and stays; the lesson says so.
    assert found.counted == (1, 3)
    # What was made is there the next time.
    assert shipping.cpp_runner() == shipping.cpp_runner()


@needs_a_compiler
def test_the_cpp_program_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the C\\+\\+ program ended with 1"):
        shipping.run_in_cpp(tmp_path / "no package", torch.ones(1, shipping.WIDTH))


def test_two_processes_add_and_an_average_of_averages_is_not_that_of_the_batch() -> None:
    first, second = u7_ranks.together([6, 2])
    assert first.sums == second.sums == [3.0, 11.0]
    assert [first.rows, second.rows] == [6, 2]
    assert first.off_by == second.off_by > 1e-3
    assert max(first.weighed_off_by, second.weighed_off_by) < 1e-6
    assert set(first.seconds) == set(u7_ranks.SIZES)


def test_processes_that_cannot_work_together_are_refused() -> None:
    for rows in ([4], [4, 0]):
        with pytest.raises(ValueError, match="at least two processes with at least one row each"):
            u7_ranks.together(rows)


def test_a_comparison_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one way and one call"):
        shipping.compare([], 1)


def test_it_runs_without_jupyter_and_prints_its_profile() -> None:
    command = [sys.executable, "-m", "fxopt_workbench.internals.u7_ecosystem", "--calls", "2"]
    command += ["--without-cpp", "--without-ranks"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    for name in ("eager", "torch.export"):
        assert f"way: {name}" in done.stdout, "no range of the profile has this name"
    assert "One model, shipped in several ways" in done.stdout
    assert "Self CPU" in done.stdout

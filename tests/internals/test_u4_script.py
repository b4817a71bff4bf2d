"""The demonstration of unit 4: it keeps what it says, calls in the engine's order, and runs without Jupyter."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy
import pytest
import torch
from matplotlib.text import Annotation

from fxopt_workbench.internals.backward_graph import MOST_NODES, draw, in_words, recorded
from fxopt_workbench.internals.cpp_frontend import PROGRAM, CompilerMissingError, build, run
from fxopt_workbench.internals.u4_autograd import LAYERS, Network, alive, compare, order, ways


def diamond() -> torch.Tensor:
    x = torch.ones(2, requires_grad=True)
    early = x.exp()
    return (x.sin().cos() * early).sum()


def test_each_way_keeps_what_it_has_to() -> None:
    network, rows = Network(4), torch.randn(3, 4)
    kept = {one.name: alive(one, network, rows) for one in ways(network)}
    assert kept == {
        "inference_mode": 1,
        "no_grad": 1,
        "recorded": LAYERS,
        "with the backward pass": LAYERS,
        "the same, checkpointed": 1,
        "the same, kept in half precision": 1,
        "the same, in anomaly mode": LAYERS,
    }
    table = compare(network, rows, repeats=1)
    assert [row[0] for row in table.rows] == list(kept)
    assert table.rows[0][2] == "1.0"


def test_every_way_that_goes_back_gives_the_same_gradients() -> None:
    network, rows = Network(4), torch.randn(3, 4)
    network(rows).sum().backward()
    wanted = [one.grad.clone() for one in network.parameters() if one.grad is not None]
    for way in ways(network):
        network.zero_grad()
        way.run(rows)
        found = [one.grad for one in network.parameters() if one.grad is not None]
        assert len(found) == (len(wanted) if way.backward else 0), way.name
        for one, other in zip(found, wanted, strict=bool(found)):
            torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)


def test_the_engine_takes_the_highest_sequence_number() -> None:
    names = [row[1] for row in order(diamond()).rows]
    assert names == [
        *("SumBackward0", "MulBackward0", "CosBackward0", "SinBackward0", "ExpBackward0"),
        "AccumulateGrad",
    ]


def test_a_graph_is_told_in_words_and_drawn() -> None:
    nodes = recorded(diamond())
    words = in_words(nodes)
    assert len(words.splitlines()) == len(nodes) == 6
    assert "(5) AccumulateGrad, a leaf" in words
    assert "(1) MulBackward0" in words
    [axes] = draw(nodes, "a title").axes
    names = {word for text in axes.texts for word in text.get_text().split()[:1]}
    assert names == {"Sum", "Mul", "Cos", "Sin", "Exp", "AccumulateGrad"}
    assert axes.get_title() == "a title"
    # An edge for each one that was recorded.
    assert sum(not text.get_text() for text in axes.texts) == sum(len(one.edges) for one in nodes) == 6


def test_every_arrow_ends_outside_the_boxes_and_two_edges_are_two_arrows() -> None:
    x = torch.ones(2, requires_grad=True)
    figure = draw(recorded(diamond() + (x * x).sum()))
    figure.savefig(BytesIO(), dpi=figure.dpi)  # Only now boxes and arrows have their places.
    [axes] = figure.axes
    arrows = [one.arrow_patch for one in axes.texts if isinstance(one, Annotation) and one.arrow_patch is not None]
    boxes = [box.get_window_extent() for text in axes.texts if (box := text.get_bbox_patch()) is not None]
    ways = set()
    for arrow in arrows:
        start, _, tip = line = numpy.asarray(arrow.get_path().vertices)[:3].round()  # In pixels, as the boxes are.
        assert not any(box.contains(*end) for box in boxes for end in (start, tip))
        ways.add(tuple(line.ravel()))
    assert len(ways) == len(arrows)


def test_an_edge_for_each_use_of_a_tensor() -> None:
    x = torch.ones(2, requires_grad=True)
    [product, _leaf] = recorded(x * x)
    assert product.edges == ((1, 0), (1, 0))


def test_what_has_no_graph_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tensor 0 does not require gradients.*set requires_grad=True"):
        recorded(torch.ones(2))
    with pytest.raises(ValueError, match="no tensor is given"):
        recorded()
    x = torch.ones(2, requires_grad=True)
    for _ in range(MOST_NODES):
        x = x.sin()
    with pytest.raises(ValueError, match=f"between 1 and {MOST_NODES} nodes"):
        draw(recorded(x))


def test_it_runs_without_jupyter_and_prints_its_profile() -> None:
    command = [sys.executable, "-m", "fxopt_workbench.internals.u4_autograd", "--width", "4", "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert "profiler_st" not in done.stdout + done.stderr, "the profiler's own log stands between the results"
    for name in ("inference_mode", "with the backward pass", "the same, checkpointed"):
        assert f"way: {name}" in done.stdout, "no range of the profile has this name"
    assert "What the engine calls" in done.stdout
    assert "Self CPU" in done.stdout
    assert "aten::tanh" in done.stdout


def test_without_a_compiler_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(CompilerMissingError, match="install one, or name yours in the environment variable CXX"):
        build(tmp_path)


def test_what_the_compiler_says_is_passed_on(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"(?s)does not compile: .*nothing_like_this"):
        build(tmp_path, "int main() { return nothing_like_this; }")


def test_a_program_that_prints_something_else_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho no losses here today either\n")
    program.chmod(0o755)
    with pytest.raises(RuntimeError, match="printed something else than its losses"):
        run(program)


@pytest.mark.long
def test_the_model_in_cpp_learns(tmp_path: Path) -> None:
    losses = run(build(tmp_path, PROGRAM))
    assert [step for step, _ in losses] == [0, 50, 100, 150, 200]
    assert losses[-1][1] < 0.01 < losses[0][1]

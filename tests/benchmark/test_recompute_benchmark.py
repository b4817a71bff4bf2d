"""`fxopt bench recompute`: on a small GPT-2, all ways at one budget. No time is asserted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from fxopt_workbench.bench import bench_recompute
from fxopt_workbench.bench.bench_recompute import (
    JOINT,
    MODULES,
    PEER,
    RecomputationRow,
    at_equal_peak,
    build_gpt2,
    compare,
)
from fxopt_workbench.cli import app


@pytest.fixture(scope="module")
def measured() -> list[RecomputationRow]:
    model, inputs = build_gpt2(layers=2, width=64, vocabulary=64, tokens=32, batch=2)
    return compare(model, inputs, (0.7, 0.001), repeats=1)


def test_every_way_is_measured_and_what_cannot_be_reached_is_refused(measured: list[RecomputationRow]) -> None:
    rows = {(row.way, row.setting): row for row in measured}
    eager = rows["eager", 1.0]
    assert eager.measured_bytes is not None
    ours = rows[MODULES, 0.7]
    assert ours.within
    assert ours.gradients_agree
    assert ours.measured_bytes is not None
    assert ours.measured_bytes <= 0.7 * eager.measured_bytes
    assert rows[PEER, 0.7].measured_bytes is not None
    for way in (MODULES, JOINT):
        refusal = rows[way, 0.001].refusal
        assert refusal is not None
        assert "0.001" in refusal


def row(way: str, setting: float, peak: int, seconds: float) -> RecomputationRow:
    return RecomputationRow(way, setting, None, peak, peak / 1000, True, seconds, True)


def test_the_fastest_of_ours_that_holds_no_more_is_compared() -> None:
    peer = row(PEER, 0.5, 600, 2.0)
    larger, slow, fast = row(MODULES, 0.7, 700, 1.0), row(MODULES, 0.6, 590, 4.0), row(JOINT, 0.6, 600, 3.0)
    (line,) = at_equal_peak([peer, larger, slow, fast])
    assert f"{JOINT} 0.6" in line
    assert "ratio 1.50" in line
    (line,) = at_equal_peak([peer, larger, replace(slow, measured_bytes=601)])
    assert "nothing of ours" in line


def test_the_command_prints_a_table_or_its_rows(
    measured: list[RecomputationRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, ...]] = []

    def compared(model: Any, inputs: dict[str, Any], *settings: Any) -> list[RecomputationRow]:
        asked.append((model.config.n_layer, model.config.n_embd, model.config.vocab_size, *inputs["input_ids"].shape))
        asked.append(settings)
        return measured

    monkeypatch.setattr(bench_recompute, "compare", compared)
    options = "--layers 1 --width 64 --vocabulary 32 --tokens 8 --batch 3 --repeats 2".split()
    answer = CliRunner().invoke(app, ["bench", "recompute", *options])
    assert answer.exit_code == 0, answer.output
    assert "refused: the budget 0.001" in answer.output
    assert asked == [(1, 64, 32, 3, 8), (bench_recompute.BUDGETS, 2)]
    rows = json.loads(CliRunner().invoke(app, ["bench", "recompute", *options, "--json"]).stdout)
    assert {"eager", MODULES, JOINT, PEER} == {entry["way"] for entry in rows}


def test_a_width_that_makes_no_heads_is_bad_input() -> None:
    answer = CliRunner().invoke(app, ["bench", "recompute", "--width", "100"])
    assert answer.exit_code == 2
    assert "multiple of 64" in answer.output

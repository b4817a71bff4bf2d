"""`fxopt bench capture`: what is timed, what counts as right, and what `auto` is held against."""

import json
import time

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from fxopt_workbench import zoo
from fxopt_workbench.bench import timed_captures
from fxopt_workbench.bench.bench_capture import cost_of_auto
from fxopt_workbench.bench.timed_captures import PEERS, Timed, time_captures
from fxopt_workbench.cli import app


class Branch(nn.Module):
    """Mirrored values take the other branch, which a recording of the example lacks."""

    def forward(self, x):
        return x + 1 if x.sum() > 0 else x - 1


def only(monkeypatch, *methods):
    """Time these methods and no peers, which saves time."""
    monkeypatch.setattr(timed_captures, "capture_methods", lambda: methods)
    monkeypatch.setattr(timed_captures, "PEERS", {})


def timed(way, seconds, comparing=0.0, verdict="right", graphs=1, level="aten"):
    capturing = [seconds - comparing] * 3
    return Timed("m", way, way in PEERS, capturing, [comparing] * 3, graphs, verdict, level=level)


def test_every_way_is_tried_in_turn_and_judged(monkeypatch):
    def breaks(model, inputs):
        raise RuntimeError("no such thing")

    only(monkeypatch, "auto", "dynamo", "export", "aot", "jit.trace")
    monkeypatch.setattr(timed_captures, "PEERS", {"broken": breaks})
    heard = []
    inputs = {"x": torch.tensor([-3.0, 1.0, 1.0, 1.0, 1.0])}
    rows = {row.way: row for row in time_captures("branch", Branch(), inputs, 2, heard.append)}
    assert heard == [*rows] * 3
    assert rows["jit.trace"].verdict == "wrong"
    assert "mirrored values" in rows["jit.trace"].why
    assert (rows["export"].verdict, rows["export"].capturing) == ("failed", [])
    assert "no such thing" in rows["broken"].why
    assert rows["aot"].verdict == "not checked"
    assert rows["auto"].graphs == 2
    assert not any(rows[way].single_and_right for way in ("jit.trace", "export", "broken", "aot", "auto"))
    right = rows["dynamo"]
    assert (len(right.capturing), len(right.comparing)) == (2, 2)
    assert min(right.capturing + right.comparing) > 0


def test_time_spent_on_comparing_is_told_apart(monkeypatch):
    only(monkeypatch, "auto", "export")

    class Slow(nn.Module):
        def forward(self, x):
            if not torch.compiler.is_compiling():
                time.sleep(0.05)
            return x * 2

    rows = {row.way: row for row in time_captures("slow", Slow(), {"x": torch.randn(3)}, 1, lambda way: None)}
    # The model itself is called on the example, on new and on mirrored values.
    assert rows["export"].comparing[0] > 0.15
    assert rows["export"].capturing[0] < rows["export"].comparing[0] + 1
    assert rows["auto"].comparing[0] > 0.15


def test_auto_is_held_against_the_fastest_right_single_method():
    rows = [
        timed("auto", 1.3, 0.3),
        timed("export", 1.0, 0.5),
        timed("dynamo", 2.0),
        timed("symbolic_trace", 0.1, verdict="wrong"),
        timed("aot", 0.2, graphs=2),
        timed("jit.trace", 0.1, level="torchscript"),
        timed("torch.export.export", 0.5),
    ]
    (cost,) = cost_of_auto(rows)
    assert (cost.best, cost.peer) == ("export", "torch.export.export")
    assert cost.ratio == pytest.approx(1.3)
    assert cost.capturing_ratio == pytest.approx(2)
    assert cost.peer_ratio == pytest.approx(2.6)
    assert cost_of_auto(rows[:1]) == []
    assert cost_of_auto(rows[1:]) == []


def test_every_peer_captures_a_model_and_is_compared(monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.setattr(timed_captures, "capture_methods", dict)
    chosen = zoo.build("vit", "cpu")
    rows = time_captures("vit", chosen.model, dict(chosen.example_inputs), 1, lambda way: None)
    assert {row.way: row.verdict for row in rows} == dict.fromkeys(PEERS, "right")
    assert all(row.peer and row.graphs == 1 and row.comparing[0] > 0 for row in rows)


def test_the_command_prints_tables_or_one_object(monkeypatch):
    pytest.importorskip("transformers")
    only(monkeypatch, "auto", "export", "dynamo", "jit.trace")
    arguments = ["bench", "capture", "--tiny", "--only", "vit", "--repeats", "1"]
    answer = CliRunner().invoke(app, [*arguments, "--json"])
    assert answer.exit_code == 0, answer.output
    document = json.loads(answer.stdout)
    rows = {row["way"]: row for row in document["captures"]}
    assert rows.keys() == {"auto", "export", "dynamo", "jit.trace"}
    assert rows["auto"]["verdict"] == rows["export"]["verdict"] == "right"
    (cost,) = document["auto"]
    assert cost["ratio"] == pytest.approx(cost["auto_seconds"] / cost["best_seconds"])
    assert cost["auto_seconds"] == pytest.approx(rows["auto"]["capturing"][0] + rows["auto"]["comparing"][0])


def test_an_unknown_model_is_bad_input():
    answer = CliRunner().invoke(app, ["bench", "capture", "--only", "bret"])
    assert answer.exit_code == 2
    assert "Did you mean 'bert'" in answer.stderr

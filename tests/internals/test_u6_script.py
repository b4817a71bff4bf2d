"""The demonstration of unit 6 and what it is made of: curves, segments, timelines, and the script without Jupyter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function

from fxopt_workbench.internals.memory_curve import memory_curve
from fxopt_workbench.internals.segments import describe_segments, draw_segments, segment
from fxopt_workbench.internals.timeline_picture import depths, describe, draw_timeline, events_of, rows_of
from fxopt_workbench.internals.timelines import COMPUTE, COPIES, Timeline, training_loop
from fxopt_workbench.internals.u6_memory import left_behind, training_step

MIB = 2**20


def test_a_curve_counts_what_comes_and_goes() -> None:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        with record_function("first"):
            one = torch.empty(1000)
        with record_function("second"):
            two = torch.empty(500)
            del one
    curve = memory_curve(profiler)
    assert curve.held == (4000, 6000, 2000)
    assert curve.peak == 6000
    first, second = curve.ranges
    assert (first.name, second.name) == ("first", "second")
    assert (curve.at(first.end), curve.most_in(first)) == (4000, 4000)
    assert (curve.most_in(second), curve.at(second.end)) == (6000, 2000)
    assert "second" in curve.text.splitlines()[-1]
    assert curve.draw("three changes").axes[0].get_title() == "three changes"
    del two


def test_only_the_outermost_ranges_are_drawn() -> None:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for name in ("one", "two"):
            with record_function(name), record_function("inside"):
                torch.empty(10)
    assert [one.name for one in memory_curve(profiler).outermost] == ["one", "two"]


def test_a_curve_of_nothing_is_refused() -> None:
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        torch.ones(2)
    with pytest.raises(ValueError, match="profile_memory=True"):
        memory_curve(profiler)


def test_a_list_of_losses_holds_their_graphs() -> None:
    """Each activation is 64 x 64 floats; `exp` saves its result, and `mean` keeps no more."""
    kept = {what: left_behind(what, 64) for what in ("nothing", "loss.item()", "loss.detach()", "loss")}
    assert kept["nothing"] == kept["loss.item()"] == 0
    assert kept["loss.detach()"] == 4 * 4
    assert kept["loss"] >= 4 * 64 * 64 * 4
    with pytest.raises(ValueError, match=r"'los' is none of .* Did you mean 'loss'"):
        left_behind("los", 8)


def test_segments_are_told_and_drawn() -> None:
    snapshot = [segment("large", ("active_allocated", 8 * MIB), ("inactive", 12 * MIB), stream=3)]
    assert snapshot[0]["total_size"] == 20 * MIB
    assert describe_segments(snapshot) == "segment 0: large, stream 3, 20 MiB: 8 MiB in use, 12 MiB free"
    assert describe_segments([]) == "no segments"
    assert draw_segments(snapshot, "one segment").axes[0].get_title() == "one segment"
    with pytest.raises(ValueError, match="not 'free'"):
        segment("small", ("free", 512))


def test_the_host_runs_ahead_until_it_waits() -> None:
    line = Timeline(launch_cost=4, pause=0)
    line.launch("first", 100)
    line.launch("second", 10)
    assert line.now == 8
    line.synchronize()
    assert line.now == 4 + 100 + 10
    line.copy("Memcpy", 30, COPIES)
    line.wait(COMPUTE, COPIES)
    line.launch("third", 5)
    by_name = {one["name"]: one for one in line.trace()}
    assert by_name["second"]["ts"] == 104
    assert by_name["Memcpy"]["ts"] == 118
    assert by_name["third"]["ts"] == 118 + 30, "a stream that waits begins when the other one has ended"
    assert by_name["cudaDeviceSynchronize"]["dur"] == 114 - 8
    correlations = [one["args"]["correlation"] for one in line.events if one["cat"] == "cuda_runtime"]
    assert correlations == sorted(set(correlations))
    with pytest.raises(ValueError, match="at least 1 µs"):
        Timeline(launch_cost=0)


def test_activities_of_a_stream_never_overlap() -> None:
    for events in (training_loop(), training_loop(copy_stream=True, pinned=False, reads_loss=True, synchronize_at=0)):
        for row in rows_of(events).values():
            if row[0]["pid"] == 0:
                ends = [one["ts"] + one["dur"] for one in row]
                assert all(end <= after["ts"] for end, after in zip(ends, row[1:], strict=False))


def test_a_trace_of_the_profiler_becomes_a_picture_and_words(tmp_path: Path) -> None:
    with profile(activities=[ProfilerActivity.CPU]) as profiler, record_function("outer"):
        torch.ones(8, 8) @ torch.ones(8, 8)
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    events = events_of(tmp_path / "trace.json")
    [(_, row)] = rows_of(events).items()
    found = dict(zip((one["name"] for one in row), depths(row), strict=True))
    assert found["outer"] == 0
    assert found["aten::matmul"] == 1
    assert found["aten::mm"] == 2
    assert "aten::mm" in describe(events)
    assert draw_timeline(events, "a product").axes[0].get_title() == "a product"


@pytest.mark.parametrize(("content", "told"), [("[]", "is no trace"), ('{"traceEvents": []}', "has no events")])
def test_what_is_no_trace_is_refused(content: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(content)
    with pytest.raises(ValueError, match=told):
        events_of(tmp_path / "trace.json")


def test_a_training_step_of_no_width_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 feature"):
        training_step(0)


def test_it_runs_without_jupyter_and_prints_its_profile(tmp_path: Path) -> None:
    trace = tmp_path / "step.json"
    command = [sys.executable, "-m", "fxopt_workbench.internals.u6_memory", "--width", "16", "--trace", str(trace)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    for text in ("checkpointed", "history.append(loss)", "slow loading", "Self CPU", "aten::mm"):
        assert text in done.stdout, text
    assert "USDT" not in done.stderr, "the profiler's own log stands between the results"
    names = {one.get("name") for one in json.loads(trace.read_text())["traceEvents"]}
    assert {"forward", "backward", "update"} <= names

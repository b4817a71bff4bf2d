"""What the gate does not show of unit 6's judges: that they are right themselves, by other means, and can be passed."""

from __future__ import annotations

import gc
import re
import weakref
from collections import Counter
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u6.caching_allocator import judge as allocating
from autograder.exercises.u6.caching_allocator import model as allocator
from autograder.exercises.u6.caching_allocator import visible as allocator_visible
from autograder.exercises.u6.find_leak import judge as leaking
from autograder.exercises.u6.find_leak import model as leak
from autograder.exercises.u6.find_leak import visible as leak_visible
from autograder.exercises.u6.peak_memory import judge as peaking
from autograder.exercises.u6.peak_memory import model as peak
from autograder.exercises.u6.peak_memory import visible as peak_visible
from autograder.exercises.u6.read_snapshot import judge as snapshots
from autograder.exercises.u6.read_snapshot import visible as snapshot_visible
from autograder.exercises.u6.read_trace import judge as tracing
from autograder.exercises.u6.read_trace import model as trace_model
from autograder.exercises.u6.read_trace import visible as trace_visible
from fxopt_workbench.torch_sources import installed

HEADER = installed("c10/core/AllocatorConfig.h").read_text()


def traces(seeds: int) -> list[Case]:
    drawn = [case for seed in range(seeds) for case in allocating.hidden_cases(Random(seed))]
    return [*allocator_visible.visible_cases(), *drawn]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (allocator.MIN_BLOCK, "kMinBlockSize"),
        (allocator.SMALL_SIZE, "kSmallSize"),
        (allocator.SMALL_BUFFER, "kSmallBuffer"),
        (allocator.MIN_LARGE_ALLOC, "kMinLargeAlloc"),
        (allocator.ROUND_LARGE, "kRoundLarge"),
        (allocator.LARGE_SEGMENT, "large_segment_size_"),
    ],
)
def test_the_model_has_the_sizes_of_the_installed_header(ours: int, theirs: str) -> None:
    found = re.search(rf"\b{theirs}(?: = |{{)(\d+)", HEADER)
    assert found, f"c10/core/AllocatorConfig.h no longer says what {theirs} is"
    assert int(found[1]) == ours


def test_an_allocator_never_hands_out_a_byte_twice_and_reports_all_that_it_reserved() -> None:
    for case in traces(3):
        device = allocator_visible.Device(case.parameters["capacity"])
        ours = allocator.Model(device)
        used: dict[str, tuple[int, int]] = {}
        for kind, *rest in case.parameters["steps"]:
            try:
                if kind == "malloc":
                    used[rest[0]] = (ours.malloc(rest[1], rest[2]), rest[1])
                elif kind == "free":
                    ours.free(used.pop(rest[0], (0, 0))[0])
                else:
                    ours.empty_cache()
            except (MemoryError, ValueError):
                pass
            spans = sorted((start, start + size) for start, size in used.values())
            assert all(end <= start for (_, end), (start, _) in pairwise(spans))
            snapshot = ours.snapshot()
            assert sum(one["total_size"] for one in snapshot) == sum(device.taken.values())
            assert all(sum(block["size"] for block in one["blocks"]) == one["total_size"] for one in snapshot)
            states = [[block["state"] for block in one["blocks"]] for one in snapshot]
            assert not any("inactive inactive" in " ".join(one) for one in states), "free neighbours did not unite"


def test_each_flaw_of_the_allocator_changes_some_fixed_trace() -> None:
    fixed = [case.parameters for case in traces(1) if not case.name.startswith("random")]
    right = [allocator_visible.play(given, allocator.Model) for given in fixed]
    for flaw in allocator.Model.FLAWS:
        flawed = partial(allocator.Model, flaw=flaw)
        assert any(allocator_visible.play(given, flawed) != one for given, one in zip(fixed, right, strict=True)), flaw


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a snapshot of PyTorch's own allocator needs a GPU")
def test_pytorch_reserves_the_same_on_a_gpu() -> None:
    """Plays traces on PyTorch's allocator: the same segments, and the same blocks in them."""
    streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
    for case in traces(2):
        steps = case.parameters["steps"]
        if case.parameters["capacity"] != allocator_visible.PLENTY or case.name == "freed twice":
            continue
        torch.cuda.empty_cache()
        assert not torch.cuda.memory_snapshot(), "somebody holds memory of the GPU, so there is nothing to compare with"
        ours = allocator.Model(allocator_visible.Device(allocator_visible.PLENTY))
        addresses: dict[str, tuple[int, int]] = {}
        for kind, *rest in steps:
            if kind == "malloc":
                theirs = torch.cuda.caching_allocator_alloc(rest[1], stream=streams[rest[2]])
                addresses[rest[0]] = (ours.malloc(rest[1], rest[2]), theirs)
            elif kind == "free":
                mine, theirs = addresses.pop(rest[0])
                ours.free(mine)
                torch.cuda.caching_allocator_delete(theirs)
            else:
                ours.empty_cache()
                torch.cuda.empty_cache()
            assert _layout(ours.snapshot()) == _layout(torch.cuda.memory_snapshot()), f"{case.name}: {kind} {rest}"
        for _, theirs in addresses.values():
            torch.cuda.caching_allocator_delete(theirs)


def _layout(snapshot: Any) -> list[Any]:
    return sorted(
        (one["segment_type"], one["total_size"], [(block["size"], block["state"]) for block in one["blocks"]])
        for one in snapshot
    )


def test_figures_of_a_snapshot_add_up_and_requests_are_served_as_the_allocator_does() -> None:
    random = Random(1)
    served = Counter[bool]()
    for _ in range(20):
        state = snapshots.random_state(random)
        figures = snapshots.report(state["snapshot"])
        parts = ("allocated", "waiting", "releasable", "stuck")
        assert figures["reserved"] == sum(figures[name] for name in parts)
        assert 0 <= figures["rounding"] <= figures["allocated"]
        for stream, size in state["requests"]:
            answer = snapshots.serves(state["snapshot"], stream, size)
            served[answer] += 1
            assert answer == _tried(state["snapshot"], stream, size)
    assert min(served[True], served[False]) > 20


def _tried(snapshot: Any, stream: int, size: int) -> bool:
    """Whether an allocator in this state serves a request without asking the device."""
    device = allocator_visible.Device(0)
    ours = allocator.Model(device)
    for one in snapshot:
        ours.sizes[one["address"]] = one["total_size"]
        small = one["segment_type"] == "small"
        for block in one["blocks"]:
            used = block["state"] != "inactive"
            ours.blocks.append(
                allocator.Block(block["address"], block["size"], one["address"], one["stream"], small, used)
            )
    ours.device.free = lambda address: None  # type: ignore[method-assign]
    try:
        ours.malloc(size, stream)
    except MemoryError:
        return False
    return not device.calls


def steps(seeds: int) -> list[Any]:
    drawn = [case for seed in range(seeds) for case in peaking.hidden_cases(Random(seed))]
    return [case.parameters["step"] for case in [*peak_visible.visible_cases(), *drawn]]


def test_the_peak_of_the_graph_is_what_the_profiler_measures() -> None:
    """But for a few bytes: operators make tensors of Python numbers, for as long as they run."""
    for given in steps(1):
        module, inputs = peak_visible.graph_of(given)
        predicted = max(peak.alive(module.graph).values())
        measured = peak_visible.measured(module, inputs)
        assert predicted <= measured <= predicted + 32, given


def test_each_flaw_changes_the_peak_of_some_fixed_step() -> None:
    cases = [*peak_visible.visible_cases(), *peaking.hidden_cases(Random(0))]
    graphs = [
        peak_visible.graph_of(case.parameters["step"])[0].graph for case in cases if not case.name.startswith("random")
    ]
    right = [max(peak.alive(graph).values()) for graph in graphs]
    for flaw in peak.FLAWS:
        flawed = [max(peak.alive(graph, flaw).values()) for graph in graphs]
        assert flawed != right, flaw


class Thing:
    def __init__(self) -> None:
        self.others: list[Thing] = []


def built(snapshot: Any) -> tuple[dict[str, Thing], list[Thing]]:
    """The objects of a snapshot, in Python."""
    things = {name: Thing() for name in snapshot["objects"]}
    for name, one in snapshot["objects"].items():
        things[name].others = [things[other] for other in one["refers_to"]]
    return things, [things[name] for name in snapshot["variables"]]


def test_python_frees_and_collects_what_the_model_says() -> None:
    cases = [*leak_visible.visible_cases(), *(case for seed in range(4) for case in leaking.hidden_cases(Random(seed)))]
    gc.collect()
    gc.disable()
    freed = 0
    try:
        for case in cases:
            before, after = case.parameters["before"], case.parameters["after"]
            found = leak.find_leak(before, after)
            for holder, size in found["holders"].items():
                things, variables = built(after)
                watched = {name: weakref.ref(thing) for name, thing in things.items()}
                references = after["objects"][holder]["refers_to"]
                things[holder].others = [things[one] for one in references if one in before["objects"]]
                things.clear()
                gone = sum(after["objects"][name]["bytes"] for name, look in watched.items() if look() is None)
                assert gone == size, f"{case.name}: {holder}"
                freed += size > 0
                assert variables
            things, variables = built(after)
            watched = {name: weakref.ref(thing) for name, thing in things.items()}
            things.clear()
            gc.collect(0)
            garbage = sum(after["objects"][name]["bytes"] for name, look in watched.items() if look() is None)
            assert garbage == found["garbage"], case.name
            assert variables
    finally:
        gc.enable()
    assert freed > 20


def test_a_snapshot_holds_what_reference_counting_leaves() -> None:
    """Each object of a snapshot has a reference, or a variable holds it."""
    for case in leaking.hidden_cases(Random(3)):
        for key in ("before", "after"):
            snapshot = case.parameters[key]
            held = {*snapshot["variables"]}
            for one in snapshot["objects"].values():
                held |= set(one["refers_to"])
            assert set(snapshot["objects"]) == held


def test_each_flaw_of_the_leak_finder_shows_in_some_fixed_case() -> None:
    cases = [*leak_visible.visible_cases(), *leaking.hidden_cases(Random(0))]
    fixed = [case.parameters for case in cases if not case.name.startswith("random")]
    for flaw in leak.FLAWS:
        found = [leak.find_leak(one["before"], one["after"], flaw) for one in fixed]
        assert found != [leak.find_leak(one["before"], one["after"]) for one in fixed], flaw


def test_time_on_the_device_and_its_gaps_add_up_microsecond_by_microsecond() -> None:
    random = Random(2)
    causes: Counter[str] = Counter()
    for _ in range(40):
        events = tracing.random_trace(random)
        found = trace_model.diagnose(events)
        device = [one for one in events if one["cat"] in ("kernel", "gpu_memcpy")]
        busy = {time for one in device for time in range(one["ts"], one["ts"] + one["dur"])}
        assert found["device"] == len(busy)
        assert sum(found[cause] for cause in trace_model.CAUSES) == max(busy) + 1 - min(busy)
        causes[found["bottleneck"]] += 1
    assert set(causes) >= {"device", "data", "launches"}, causes


def test_each_flaw_of_the_reader_shows_in_some_fixed_trace() -> None:
    cases = [*trace_visible.visible_cases(), *tracing.hidden_cases(Random(0))]
    fixed = [case.parameters["events"] for case in cases if not case.name.startswith("random")]
    for flaw in trace_model.FLAWS:
        assert any(trace_model.diagnose(one, flaw) != trace_model.diagnose(one) for one in fixed), flaw


@pytest.mark.parametrize(
    ("judge", "visible", "evidence"),
    [
        (snapshots, snapshot_visible, {"figures": None, "served": [], "torch_calls": []}),
        (peaking, peak_visible, {"bytes": None, "node": None}),
        (leaking, leak_visible, {"garbage": None, "holders": None, "torch_calls": []}),
        (tracing, trace_visible, {"figures": dict.fromkeys(trace_visible.FIGURES), "bottleneck": None}),
    ],
)
def test_empty_evidence_does_not_pass(judge: Any, visible: Any, evidence: dict[str, Any]) -> None:
    assert list(judge.judge(visible.visible_cases()[0], Evidence(evidence)))


def test_a_trace_with_other_steps_than_the_case_does_not_pass() -> None:
    with pytest.raises(ValueError, match="zip"):
        list(allocating.judge(allocator_visible.visible_cases()[0], Evidence({"runs": [], "torch_calls": []})))

"""Figures of a trace and its bottleneck, counted anew from the events."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u6.read_trace.model import CAUSES, FLAWS, diagnose
from autograder.exercises.u6.read_trace.visible import FIGURES
from fxopt_workbench.internals.timelines import (
    COMPUTE,
    COPIES,
    DEVICE,
    HOST,
    MAIN_THREAD,
    ON_DEVICE,
    Event,
    Timeline,
    training_loop,
)

SEVERAL = "Where several activities end a gap, the one that was launched first counts, wherever it stands in the list."

MISCONCEPTIONS = {
    "asked PyTorch": "Your function asks PyTorch. A trace is a list of dictionaries: count.",
    "not figures": "Return a dictionary with six whole numbers of microseconds, and the name of the bottleneck.",
    "streams added up": (
        "`device` is the time in which *something* runs on the device. Two streams at once are not twice the time: "
        "unite the intervals before you add them up."
    ),
    "copies left out": "Copies and memsets keep the device busy, too, not only kernels.",
    "one stream only": "The device is busy while *any* of its streams is.",
    "ends counted": (
        "Count gaps between activities of the device. What lies before the first or after the last one is no gap."
    ),
    "all threads": (
        "Only the thread that launches holds the device up. One that loads data in the background costs nothing, as "
        "long as the data is there in time."
    ),
    "waits of all threads": "A wait on another thread does not hold up the thread that launches.",
    "one thread launches": (
        "Another thread may launch as well: the one of the backward pass, say. Ask the launch that a gap waited for "
        "which thread it is on."
    ),
    "some waits left out": "Every call in `SYNCHRONISES` makes the host wait.",
    "data takes the whole gap": (
        "Only the part of a gap in which the host is inside `data` is due to data; the rest has a cause of its own."
    ),
    "synchronisation takes the whole gap": (
        "The part of a gap in which the host is inside `data` is due to data, also where a synchronisation came before."
    ),
    "waiting is idle": (
        "While the host waits for the device, the device works. What a synchronisation costs is the gap *after* it, "
        "when nothing is queued."
    ),
    "launched early overlooked": (
        "If the launch began before the gap did, the host was not late: such a gap is `between` two activities."
    ),
    "paired by order": (
        "Find the launch of an activity by its `correlation`. Streams run in another order than that of the launches."
    ),
    "any call waits": (
        "Only the calls in `SYNCHRONISES` make the host wait. Launching and copying asynchronously do not."
    ),
    "a wait right before the launch": (
        "A synchronisation in the gap held the host up, also where other calls came between it and the launch. Look at "
        "every call that returned in time, not only at the last one."
    ),
    "returned before the gap": "A synchronisation counts if it returned within the gap, and not any earlier.",
    "nested ranges twice": "Ranges may lie within one another: time inside two of them is still the same time.",
    "all copies hidden": "`hidden` is the time in which a copy *and* a kernel run at once.",
    "hidden added up": "`hidden` is time: where a copy runs beside two kernels at once, count it once.",
    "the last of several launches": SEVERAL,
    "the first of several in the list": SEVERAL,
    "the last of several in the list": SEVERAL,
    "threads by number alone": (
        "Threads of two processes may have the same number. What another process does, or waits for, does not hold up "
        "the thread that launches: compare `pid`, too."
    ),
    "operators named data": "Only a range (`user_annotation`) counts as `data`; an operator may have the same name.",
    "names with data in them": "Only a range whose name is `data`, and nothing else, counts.",
    "memsets left out": "A memset keeps the device busy, too.",
    "memsets are copies": "For `hidden` only copies count (`gpu_memcpy`), beside kernels; a memset is neither.",
    "memsets are kernels": "For `hidden` only kernels count (`kernel`), beside copies; a memset is neither.",
    "waits after the launch": "A synchronisation that returned after the launch began did not hold that launch up.",
    "data until the launch": (
        "The host may be inside `data` after the launch, while the device still stands still: that part of the gap "
        "counts, too."
    ),
    "a launch just then was early": "A launch that begins just when the gap does did not begin before it.",
    "a wait until the gap is none": (
        "What counts is when a synchronisation returned, not when it began; one that returned just at the gap's start "
        "counts, too."
    ),
    "a wait until the launch is none": "A synchronisation that returned just at the launch's start counts, too.",
    "in the order of the list": "The events of a trace may come in any order: sort spans before you unite them.",
    "a time of 0 is none": (
        "A trace may begin at 0, a time like any other. Where a variable says whether anything has run so far, ask "
        "whether it is `None`, not whether it is true."
    ),
    "one end for each start": (
        "Several activities may begin at once and end at different times: the device is busy until the last of them "
        "ends. A dictionary by their beginnings keeps only one of them."
    ),
    "the last end counts": (
        "A span may lie within an earlier one and end before it: of two that overlap, the *later* end counts, not that "
        "of the one that began later."
    ),
    "operators launch": (
        "Only a call (`cuda_runtime`) launches an activity. An operator around it may carry the same `correlation`, "
        "and begins earlier."
    ),
    "compared by identity": (
        "Compare numbers with `==`. `is` asks whether two of them are one object, which Python promises for none, and "
        "which holds for small ones only."
    ),
    "wrong bottleneck": "The bottleneck is the largest of the five causes.",
    "wrong figures": "Counted from its events, this trace has other figures.",
}


def hidden_cases(random: Random) -> list[Case]:
    """One trace for each rule that is easily forgotten, then random ones."""
    fixed = {
        "returned just then": _returned_just_then(),
        "two streams": _two_streams(),
        "loads in the background": training_loop(load=80, loader_thread=True, kernels=(5, 5), prepare=40, copy=3),
        "loads and waits": training_loop(load=70, kernels=(40, 30), reads_loss=True, prepare=8),
        "copies that block": training_loop(pinned=False, copy=90, kernels=(12, 12), prepare=5, load=1),
        "waits in the middle": training_loop(kernels=(50, 50, 50), synchronize_at=1, prepare=9),
        "nested": _nested(),
        "long ago": _long_ago(),
        "calls after the wait": _calls_after_the_wait(random),
        "prefetched": _prefetched(),
        "another thread waits": _another_thread(),
        "several begin at once": _several_at_once(),
        "two processes": _two_processes(),
        "names of others": _names_of_others(),
        "two threads launch": _two_threads(),
        "memsets": _memsets(),
        "waits and loads after the launch": _after_the_launch(),
        "in any order": _prefetched()[::-1],
        "a copy all the time": _written("kernel 3 10 40 7", "gpu_memcpy 2 10 40 20"),
        "no events": [],
        "a trace from 0 on": _written("kernel 0 0 10 7", "kernel 20 30 10 7", "kernel 51 60 5 7"),
        "longer and shorter at once": _lengths_at_once(),
        "ranges in any order": _ranges_in_any_order(),
        "an operator with the same number": _operators_with_numbers(),
        "numbers as large as real ones": _large_numbers(),
    }
    cases = [Case(name, {"events": events}) for name, events in fixed.items()]
    return cases + [Case(f"random {number}", {"events": random_trace(random)}) for number in range(5)]


def _written(*rows: str) -> list[Event]:
    """A trace of activities, ranges and calls, one a row.

    An activity is its category, then when it was launched, when it began and how long it took, its stream, and the
    thread that launched it, if that is not the main one. Anything else on the host is its category, name, beginning,
    duration, process and thread.
    """
    events: list[Event] = []

    def add(name: str, category: str, start: int, duration: int, process: int, thread: int, **args: int) -> None:
        place = {"ts": start, "dur": duration, "pid": process, "tid": thread, "args": args}
        events.append({"name": name, "cat": category, "ph": "X", **place})

    for number, row in enumerate(rows):
        category, *told = row.split()
        if category in ON_DEVICE:
            launched, start, duration, stream, *by = map(int, told)
            add(f"call {number}", "cuda_runtime", launched, 1, HOST, by[0] if by else MAIN_THREAD, correlation=number)
            add(f"activity {number}", category, start, duration, DEVICE, stream, correlation=number)
        else:
            name, *numbers = told
            start, duration, process, thread = map(int, numbers)
            add(name, category, start, duration, process, thread, correlation=-number)
    return events


def _several_at_once() -> list[Event]:
    return _written(
        "kernel 0 2 10 7",
        *("kernel 30 40 10 20", "kernel 5 40 10 7"),  # launched before the gap, and within it
        *("kernel 45 90 10 7", "kernel 80 90 10 20"),
        *("kernel 101 150 10 7", "kernel 130 150 10 20"),  # both within it: data lies between them
        f"user_annotation data 105 20 {HOST} {MAIN_THREAD}",
        f"cuda_runtime cudaStreamSynchronize 126 2 {HOST} {MAIN_THREAD}",
        *("kernel 190 200 10 7", "kernel 170 200 10 20"),
        f"cuda_runtime cudaStreamSynchronize 180 2 {HOST} {MAIN_THREAD}",
    )


def _lengths_at_once() -> list[Event]:
    """Two activities begin at once, and end at different times: first the longer one stands first, then the other."""
    return _written(
        "kernel 0 2 10 7",
        *("kernel 20 30 25 7", "kernel 21 30 10 20"),
        *("kernel 60 70 10 20", "kernel 61 70 25 7"),
        "kernel 110 120 5 7",
    )


def _ranges_in_any_order() -> list[Event]:
    """Two gaps with several ranges each, the latest first; one lies within another and ends before it."""
    data = [(100, 15), (85, 5), (80, 30), (72, 3), (30, 6), (14, 4)]
    return _written(
        *("kernel 0 2 10 7", "kernel 50 60 10 7", "kernel 120 130 5 7"),
        *(f"user_annotation data {start} {duration} {HOST} {MAIN_THREAD}" for start, duration in data),
    )


def _operators_with_numbers() -> list[Event]:
    """Operators that begin before a gap and launch in it, with the number of what they launch."""
    events = _written("kernel 0 2 10 7", "kernel 20 30 10 7", "kernel 55 70 10 7")
    place = {"cat": "cpu_op", "ph": "X", "pid": HOST, "tid": MAIN_THREAD}
    early = {"name": "aten::mm", "ts": 5, "dur": 20, "args": {"correlation": 1}, **place}
    late = {"name": "aten::add", "ts": 35, "dur": 30, "args": {"correlation": 2}, **place}
    return [early, *events, late]


def _large_numbers() -> list[Event]:
    """Times long after the start, and numbers of processes and threads such as an operating system gives."""
    events = _written(
        *("kernel 0 2 10 7", "kernel 30 40 10 20", "kernel 20 40 10 7"),
        f"user_annotation data 13 5 {HOST} {MAIN_THREAD}",
        f"cuda_runtime cudaStreamSynchronize 22 3 {HOST} {MAIN_THREAD}",
    )
    return [
        {**one, "ts": one["ts"] + 1_000_000, "pid": one["pid"] + 48_000, "tid": one["tid"] + 48_000} for one in events
    ]


def _two_processes() -> list[Event]:
    return _written(
        *("kernel 0 2 10 7", "kernel 50 60 10 7"),
        f"user_annotation data 15 20 {HOST + 4} {MAIN_THREAD}",
        f"cuda_runtime cudaDeviceSynchronize 20 10 {HOST + 4} {MAIN_THREAD}",
    )


def _names_of_others() -> list[Event]:
    return _written(
        *("kernel 0 2 10 7", "kernel 50 60 10 7", "kernel 90 100 5 7"),
        f"cpu_op data 15 20 {HOST} {MAIN_THREAD}",
        f"user_annotation metadata 72 15 {HOST} {MAIN_THREAD}",
        f"user_annotation data_loader 75 5 {HOST} {MAIN_THREAD}",
    )


def _two_threads() -> list[Event]:
    """As in a backward pass, which has its own thread; with every way to wait, and one that only sounds like it."""
    other = MAIN_THREAD + 5
    return _written(
        *("kernel 0 2 10 7", f"kernel 50 60 10 7 {other}"),
        f"user_annotation data 15 10 {HOST} {MAIN_THREAD}",
        f"user_annotation data 30 5 {HOST} {other}",
        f"cuda_runtime cudaEventSynchronize 13 8 {HOST} {other}",
        *("kernel 90 100 5 7", f"cuda_runtime cudaDeviceSynchronize 75 0 {HOST} {MAIN_THREAD}"),
        *("kernel 120 130 5 7", f"cuda_runtime cudaEventSynchronize 106 3 {HOST} {MAIN_THREAD}"),
        *("kernel 150 160 5 7", f"cuda_runtime cuCtxSynchronize 136 4 {HOST} {MAIN_THREAD}"),
    )


def _memsets() -> list[Event]:
    return _written(
        *("gpu_memset 0 2 10 7", "kernel 1 5 20 20", "gpu_memcpy 3 8 3 21"),
        *("gpu_memcpy 40 45 20 7", "gpu_memset 42 50 30 20"),
        *("kernel 60 100 5 7", "gpu_memset 61 110 4 7"),
    )


def _after_the_launch() -> list[Event]:
    return _written(
        *("kernel 0 2 10 7", "kernel 20 60 10 7", "kernel 75 120 10 7"),
        f"cuda_runtime cudaStreamSynchronize 22 6 {HOST} {MAIN_THREAD}",
        f"user_annotation data 80 25 {HOST} {MAIN_THREAD}",
    )


def _returned_just_then() -> list[Event]:
    return _written(
        *("kernel 0 2 10 7", "kernel 40 60 10 7", "kernel 41 71 10 7"),
        f"cuda_runtime cudaStreamSynchronize 5 35 {HOST} {MAIN_THREAD}",
    )


def _calls_after_the_wait(random: Random) -> list[Event]:
    """A host that waits, and then does something else before it launches what ends the gap."""
    calls = ["cudaEventRecord", "cudaMalloc", "cudaMemGetInfo", "cudaStreamWaitEvent"]
    first, second = random.sample(calls, 2)
    return _written(
        *("kernel 0 2 98 7", "kernel 120 150 10 7"),
        f"cuda_runtime cudaStreamSynchronize 30 {random.randint(71, 80)} {HOST} {MAIN_THREAD}",
        f"cuda_runtime {first} 112 {random.randint(1, 6)} {HOST} {MAIN_THREAD}",
        # The launch in between is for another stream, where it begins later; the one after it ends the gap.
        *("kernel 200 240 10 7", "kernel 190 260 10 20"),
        f"cuda_runtime cudaDeviceSynchronize 165 {random.randint(2, 9)} {HOST} {MAIN_THREAD}",
        # Two calls and an operator come between.
        "kernel 330 350 10 7",
        f"cuda_runtime cudaEventSynchronize 265 {random.randint(6, 20)} {HOST} {MAIN_THREAD}",
        f"cuda_runtime {second} 290 4 {HOST} {MAIN_THREAD}",
        f"cpu_op {random.choice(['aten::add', 'aten::empty'])} 300 20 {HOST} {MAIN_THREAD}",
        f"cuda_runtime {first} 322 3 {HOST} {MAIN_THREAD}",
    )


def _two_streams() -> list[Event]:
    line = Timeline(3, 0)
    line.launch("long", 100, COMPUTE)
    line.launch("queued", 40, COMPUTE)
    line.copy("Memcpy HtoD", 50, COPIES)
    line.launch("beside", 30, COPIES)
    line.host("slow", 300)
    line.launch("later", 20, COPIES)
    line.copy("Memcpy DtoH", 5, COMPUTE)
    line.host("slow", 60)
    line.launch("last", 20)
    return line.trace()


def _nested() -> list[Event]:
    line = Timeline()
    for _ in range(2):
        line.launch("kernel", 10)
        with line.range("epoch"):
            line.host("before", 30)
            with line.range("data"):
                line.host("open", 25)
                with line.range("data"):
                    line.host("decode", 35)
            line.host("after", 15)
    line.launch("kernel", 10)
    return line.trace()


def _long_ago() -> list[Event]:
    line = Timeline()
    line.launch("first", 30)
    line.synchronize()
    line.launch("second", 10)
    line.host("slow", 50)
    line.launch("third", 10)
    line.copy("Memcpy HtoD", 15)
    line.host("slow", 40)
    line.wait(COMPUTE, COPIES)
    line.launch("fourth", 10)
    return line.trace()


def _prefetched() -> list[Event]:
    line = Timeline(2)
    for number in range(3):
        line.copy(f"Memcpy {number}", 45, COPIES)
        line.launch(f"kernel {number}", 30, COMPUTE)
        line.launch(f"side {number}", 25, COMPUTE + 1)
    line.host("slow", 120)
    line.launch("last", 10)
    return line.trace()


def _another_thread() -> list[Event]:
    events = training_loop(kernels=(6, 6, 6), prepare=12, load=1)
    ends = sorted(one["ts"] + one["dur"] for one in events if one["cat"] == "kernel")
    waits = [
        {"name": "cudaStreamSynchronize", "cat": "cuda_runtime", "ph": "X", "ts": end - 1, "dur": 2}
        | {"pid": 1, "tid": 3, "args": {"correlation": -number}}
        for number, end in enumerate(ends, 1)
    ]
    return sorted([*events, *waits], key=lambda event: (event["ts"], -event["dur"]))


def random_trace(random: Random) -> list[Event]:
    """A training loop with random durations."""
    return training_loop(
        random.randint(2, 4),
        load=random.choice([2, 30, 200]),
        loader_thread=random.random() < 0.3,
        kernels=tuple(random.choice([3, 10, 40, 150]) for _ in range(random.randint(1, 6))),
        prepare=random.choice([1, 5, 25]),
        bookkeeping=random.choice([0, 0, 20, 150]),
        copy=random.randint(2, 60),
        copy_stream=random.random() < 0.5,
        pinned=random.random() < 0.6,
        reads_loss=random.random() < 0.4,
        synchronize_at=random.choice([-1, -1, 0, 1]),
        launch_cost=random.randint(2, 9),
    )


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind wrong figures, or a wrong bottleneck."""
    events = case.parameters["events"]
    figures, name = evidence.values["figures"], evidence.values["bottleneck"]
    if None in figures.values() or name is None:
        yield "not figures", f"(found {figures} and {name!r})"
        return
    right = diagnose(events)
    off = [figure for figure in FIGURES if figures[figure] != right[figure]]
    if off:
        told = ", ".join(f"{figure}: found {figures[figure]}, wanted {right[figure]}" for figure in off)
        yield _named(events, figures), f"({told}; in µs)"
    elif any(right[cause] for cause in CAUSES) and right.get(name) != max(right[cause] for cause in CAUSES):
        yield "wrong bottleneck", f"(found {name}, wanted {right['bottleneck']})"
    elif evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(evidence.values['torch_calls'])})"


def _named(events: list[Event], figures: dict[str, int]) -> str:
    for flaw in FLAWS:
        other = diagnose(events, flaw)
        if all(other[figure] == figures[figure] for figure in FIGURES):
            return flaw
    return "wrong figures"

"""Why a device stands still, read from a trace; and what comes out when something is overlooked."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from fxopt_workbench.internals.timelines import ON_DEVICE, Event

SYNCHRONISES = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")

CAUSES = ("device", "data", "synchronisation", "launches", "between")

FLAWS = (
    "streams added up",
    "copies left out",
    "ends counted",
    "all threads",
    "waits of all threads",
    "one thread launches",
    "some waits left out",
    "data takes the whole gap",
    "synchronisation takes the whole gap",
    "waiting is idle",
    "launched early overlooked",
    "paired by order",
    "any call waits",
    "a wait right before the launch",
    "returned before the gap",
    "nested ranges twice",
    "all copies hidden",
    "hidden added up",
    "one stream only",
    "the last of several launches",
    "the first of several in the list",
    "the last of several in the list",
    "threads by number alone",
    "operators named data",
    "names with data in them",
    "memsets left out",
    "memsets are copies",
    "memsets are kernels",
    "waits after the launch",
    "data until the launch",
    "in the order of the list",
    "a launch just then was early",
    "a wait until the gap is none",
    "a wait until the launch is none",
    "a time of 0 is none",
    "one end for each start",
    "the last end counts",
    "operators launch",
    "compared by identity",
)

LARGEST_CACHED = 256
"""Python keeps one object for each whole number from 0 to this one; larger ones are made anew."""

Span = tuple[int, int]


def union(spans: Iterable[Span], *, in_order: bool = True, last_end: bool = False) -> list[Span]:
    """The same time without overlaps, in order.

    Args:
        spans: which overlap.
        in_order: `False` for what becomes of it if nobody puts the spans in order.
        last_end: what becomes of it if the end of the latest span counts, even if an earlier one ends after it.
    """
    found: list[Span] = []
    for start, end in sorted(spans) if in_order else spans:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], end if last_end else max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def overlap(one: list[Span], other: list[Span]) -> int:
    """How long both last."""
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in one for b in other)


def span(event: Event) -> Span:
    """Beginning and end of an event."""
    return event["ts"], event["ts"] + event["dur"]


def diagnose(events: list[Event], flaw: str = "") -> dict[str, Any]:
    """The figures in microseconds and the bottleneck, with one flaw or none."""
    device = [event for event in events if event["cat"] in ON_DEVICE]
    left_out = {"copies left out": ("gpu_memcpy", "gpu_memset"), "memsets left out": ("gpu_memset",)}.get(flaw, ())
    counted = [event for event in device if event["cat"] not in left_out]
    if flaw == "one stream only":
        counted = [event for event in device if event["tid"] == device[0]["tid"]]
    how = {"in_order": flaw != "in the order of the list", "last_end": flaw == "the last end counts"}
    running = [span(event) for event in counted]
    busy = union(dict(running).items() if flaw == "one end for each start" else running, **how)
    found = dict.fromkeys(CAUSES, 0)
    found["device"] = sum(event["dur"] for event in counted) if flaw == "streams added up" else _length(busy)
    calling = ("cuda_runtime", "cpu_op") if flaw == "operators launch" else ("cuda_runtime",)
    launches = {one["args"].get("correlation"): one for one in events if one["cat"] in calling}
    in_order = sorted(launches.values(), key=lambda one: one["ts"])
    started = sorted(device, key=lambda one: one["ts"])
    for (began, start), (end, _) in pairwise(busy):
        if flaw == "a time of 0 is none" and not began:
            continue
        ending = [one for one in counted if one["ts"] == end]
        if flaw == "paired by order":
            launch = in_order[started.index(ending[0])]
        else:
            launch = _launch([launches[one["args"]["correlation"]] for one in ending], flaw)
        _attribute(found, events, (start, end), launch, flaw)
    if flaw == "waiting is idle":
        found["synchronisation"] = sum(one["dur"] for one in events if one["name"] in SYNCHRONISES)
    if flaw == "ends counted" and busy:
        last = max(span(one)[1] for one in events)
        found["launches"] += busy[0][0] - min(one["ts"] for one in events) + last - busy[-1][1]
    copying = ("gpu_memcpy", "gpu_memset") if flaw == "memsets are copies" else ("gpu_memcpy",)
    computing = ("kernel", "gpu_memset") if flaw == "memsets are kernels" else ("kernel",)
    copies = [span(one) for one in device if one["cat"] in copying]
    kernels = [span(one) for one in device if one["cat"] in computing]
    hidden = overlap(union(copies, **how), union(kernels, **how))
    if flaw == "all copies hidden":
        hidden = sum(end - start for start, end in copies)
    if flaw == "hidden added up":
        hidden = overlap(copies, kernels)
    return {**found, "hidden": hidden, "bottleneck": max(CAUSES, key=lambda cause: found[cause])}


def _launch(of_ending: list[Event], flaw: str) -> Event:
    """The launch that a gap waited for, of those whose activities end it."""
    match flaw:
        case "the last of several launches":
            return max(of_ending, key=lambda one: one["ts"])
        case "the first of several in the list":
            return of_ending[0]
        case "the last of several in the list":
            return of_ending[-1]
    return min(of_ending, key=lambda one: one["ts"])


def _attribute(found: dict[str, int], events: list[Event], gap: Span, launch: Event, flaw: str) -> None:
    start, end = gap
    early = launch["ts"] < start or (launch["ts"] == start and flaw == "a launch just then was early")
    if early and flaw != "launched early overlooked":
        found["between"] += end - start
        return
    if flaw == "one thread launches":
        launch = {**launch, "tid": next(one["tid"] for one in events if one["cat"] == "cuda_runtime")}
    process = (launch["pid"],) if flaw != "threads by number alone" else {one["pid"] for one in events}
    mine = [one for one in events if one["tid"] == launch["tid"] and one["pid"] in process]
    if flaw == "compared by identity" and max(launch["pid"], launch["tid"]) > LARGEST_CACHED:
        mine = [launch]
    at_data = [
        span(one)
        for one in (events if flaw == "all threads" else mine)
        if (one["cat"] == "user_annotation" or flaw == "operators named data")
        and (one["name"] == "data" or (flaw == "names with data in them" and "data" in one["name"]))
    ]
    returned = [
        one for one in mine if one["cat"] == "cuda_runtime" and span(one)[1] <= launch["ts"] and one is not launch
    ]
    last = max(returned, key=lambda one: span(one)[1], default=launch)
    until = launch["ts"] if flaw == "data until the launch" else end
    in_order, last_end = flaw != "in the order of the list", flaw == "the last end counts"
    united = union(at_data, in_order=in_order, last_end=last_end)
    ranges = at_data if flaw == "nested ranges twice" else united
    data = overlap([(start, until)], ranges)
    if data and flaw == "data takes the whole gap":
        data = end - start
    waited = any(
        (
            one["name"] in SYNCHRONISES[: 2 if flaw == "some waits left out" else None]
            or (flaw == "any call waits" and one["cat"] == "cuda_runtime" and one is not launch)
        )
        and (one is last or flaw != "a wait right before the launch")
        and (start <= span(one)[1] or flaw == "returned before the gap")
        and not (start == span(one)[1] and flaw == "a wait until the gap is none")
        and not (launch["ts"] == span(one)[1] and flaw == "a wait until the launch is none")
        and span(one)[1] <= (end if flaw == "waits after the launch" else launch["ts"])
        for one in (events if flaw == "waits of all threads" else mine)
    )
    if waited and flaw == "synchronisation takes the whole gap":
        data = 0
    found["data"] += data
    found["synchronisation" if waited else "launches"] += end - start - data


def _length(spans: list[Span]) -> int:
    return sum(end - start for start, end in spans)

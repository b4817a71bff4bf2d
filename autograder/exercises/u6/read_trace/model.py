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
    "data takes the whole gap",
    "synchronisation takes the whole gap",
    "waiting is idle",
    "launched early overlooked",
    "paired by order",
    "any call waits",
    "returned before the gap",
    "nested ranges twice",
    "all copies hidden",
    "hidden added up",
    "one stream only",
)

Span = tuple[int, int]


def union(spans: Iterable[Span]) -> list[Span]:
    """The same time without overlaps, in order."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
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
    counted = [event for event in device if event["cat"] == "kernel"] if flaw == "copies left out" else device
    if flaw == "one stream only":
        counted = [event for event in device if event["tid"] == device[0]["tid"]]
    busy = union(map(span, counted))
    found = dict.fromkeys(CAUSES, 0)
    found["device"] = sum(event["dur"] for event in counted) if flaw == "streams added up" else _length(busy)
    launches = {one["args"]["correlation"]: one for one in events if one["cat"] == "cuda_runtime"}
    in_order = sorted(launches.values(), key=lambda one: one["ts"])
    started = sorted(device, key=lambda one: one["ts"])
    for (_, start), (end, _) in pairwise(busy):
        ending = [one for one in counted if one["ts"] == end]
        if flaw == "paired by order":
            launch = in_order[started.index(ending[0])]
        else:
            launch = min((launches[one["args"]["correlation"]] for one in ending), key=lambda one: one["ts"])
        _attribute(found, events, (start, end), launch, flaw)
    if flaw == "waiting is idle":
        found["synchronisation"] = sum(one["dur"] for one in events if one["name"] in SYNCHRONISES)
    if flaw == "ends counted" and busy:
        last = max(span(one)[1] for one in events)
        found["launches"] += busy[0][0] - min(one["ts"] for one in events) + last - busy[-1][1]
    copies = [span(one) for one in device if one["cat"] == "gpu_memcpy"]
    kernels = [span(one) for one in device if one["cat"] == "kernel"]
    hidden = overlap(union(copies), union(kernels))
    if flaw == "all copies hidden":
        hidden = sum(end - start for start, end in copies)
    if flaw == "hidden added up":
        hidden = overlap(copies, kernels)
    return {**found, "hidden": hidden, "bottleneck": max(CAUSES, key=lambda cause: found[cause])}


def _attribute(found: dict[str, int], events: list[Event], gap: Span, launch: Event, flaw: str) -> None:
    start, end = gap
    if launch["ts"] < start and flaw != "launched early overlooked":
        found["between"] += end - start
        return
    mine = [one for one in events if one["tid"] == launch["tid"] and one["pid"] == launch["pid"]]
    at_data = [
        span(one)
        for one in (events if flaw == "all threads" else mine)
        if one["cat"] == "user_annotation" and one["name"] == "data"
    ]
    data = overlap([gap], at_data if flaw == "nested ranges twice" else union(at_data))
    if data and flaw == "data takes the whole gap":
        data = end - start
    waited = any(
        (
            one["name"] in SYNCHRONISES
            or (flaw == "any call waits" and one["cat"] == "cuda_runtime" and one is not launch)
        )
        and (start <= span(one)[1] or flaw == "returned before the gap")
        and span(one)[1] <= launch["ts"]
        for one in (events if flaw == "waits of all threads" else mine)
    )
    if waited and flaw == "synchronisation takes the whole gap":
        data = 0
    found["data"] += data
    found["synchronisation" if waited else "launches"] += end - start - data


def _length(spans: list[Span]) -> int:
    return sum(end - start for start, end in spans)

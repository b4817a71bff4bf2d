"""a wait until the gap is none

Asks when the call began.
"""

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
SYNCHRONISES = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


def span(event):
    return event["ts"], event["ts"] + event["dur"]


def unite(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """By sweeping over starts and ends."""
    edges = sorted([(start, 0) for start, _ in spans] + [(end, 1) for _, end in spans])
    united, open_spans, since = [], 0, None
    for time, kind in edges:
        if kind == 0:
            if not open_spans:
                since = time
            open_spans += 1
        else:
            open_spans -= 1
            if not open_spans:
                united.append((since, time))
    return united


def common(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    """How long both last: the sum of both less the union."""
    one, other = unite(one), unite(other)

    def length(spans):
        return sum(end - start for start, end in spans)

    return length(one) + length(other) - length(unite(one + other))


def diagnose(events: list[dict]) -> dict:
    """Where the time of the device goes."""
    found = dict.fromkeys(("device", "between", "data", "synchronisation", "launches"), 0)
    activities = [event for event in events if event["cat"] in ON_DEVICE]
    launches = {
        event["args"]["correlation"]: event
        for event in events
        if event["cat"] == "cuda_runtime" and "correlation" in event.get("args", {})
    }
    busy = unite([span(event) for event in activities])
    found["device"] = sum(end - start for start, end in busy)
    for at in range(1, len(busy)):
        start, end = busy[at - 1][1], busy[at][0]
        candidates = [launches[a["args"]["correlation"]] for a in activities if a["ts"] == end]
        launch = min(candidates, key=lambda event: event["ts"])
        if launch["ts"] < start:
            found["between"] += end - start
            continue
        thread = launch["pid"], launch["tid"]
        there = [event for event in events if (event["pid"], event["tid"]) == thread]
        loading = common(
            [span(e) for e in there if e["cat"] == "user_annotation" and e["name"] == "data"], [(start, end)]
        )
        found["data"] += loading
        waited = any(
            event["cat"] == "cuda_runtime" and event["name"] in SYNCHRONISES and start <= event["ts"] <= launch["ts"]
            for event in there
        )
        found["synchronisation" if waited else "launches"] += end - start - loading
    kernels = [span(event) for event in events if event["cat"] == "kernel"]
    copies = [span(event) for event in events if event["cat"] == "gpu_memcpy"]
    return {**found, "hidden": common(kernels, copies), "bottleneck": max(found, key=found.get)}

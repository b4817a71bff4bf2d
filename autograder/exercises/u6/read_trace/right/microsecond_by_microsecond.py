"""Looks at every microsecond."""

ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset"}
WAITS = {"cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize"}


def ticks(events):
    return {time for event in events for time in range(event["ts"], event["ts"] + event["dur"])}


def diagnose(events):
    device = [event for event in events if event["cat"] in ON_DEVICE]
    busy = ticks(device)
    found = {"device": len(busy), "data": 0, "synchronisation": 0, "launches": 0, "between": 0}
    callers = {event["args"].get("correlation"): event for event in events if event["cat"] == "cuda_runtime"}
    starts = sorted({event["ts"] for event in device if event["ts"] - 1 not in busy})[1:]
    for end in starts:
        start = end
        while start - 1 not in busy:
            start -= 1
        launch = min(
            (callers[event["args"]["correlation"]] for event in device if event["ts"] == end),
            key=lambda event: event["ts"],
        )
        if launch["ts"] < start:
            found["between"] += end - start
            continue
        thread = [event for event in events if event["pid"] == launch["pid"] and event["tid"] == launch["tid"]]
        loading = ticks(event for event in thread if event["cat"] == "user_annotation" and event["name"] == "data")
        gap = set(range(start, end))
        found["data"] += len(gap & loading)
        ends = [event["ts"] + event["dur"] for event in thread if event["name"] in WAITS]
        cause = "synchronisation" if [time for time in ends if start <= time <= launch["ts"]] else "launches"
        found[cause] += len(gap - loading)
    name = sorted(found, key=found.get)[-1]
    copies = ticks(event for event in device if event["cat"] == "gpu_memcpy")
    kernels = ticks(event for event in device if event["cat"] == "kernel")
    return dict(found, hidden=len(copies & kernels), bottleneck=name)

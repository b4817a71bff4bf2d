"""a wait right before the launch

Looks at the last call before the launch only.
"""

from itertools import pairwise

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
SYNCHRONISES = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


def unite(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same time without overlaps, in order."""
    united = []
    for start, end in sorted(spans):
        if united and start <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], end))
        else:
            united.append((start, end))
    return united


def common(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    """How long both last."""
    return sum(max(0, min(end, stop) - max(start, begin)) for start, end in unite(one) for begin, stop in unite(other))


def span(event: dict) -> tuple[int, int]:
    return event["ts"], event["ts"] + event["dur"]


def diagnose(events: list[dict]) -> dict:
    """Where the time of the device goes."""
    activities = [event for event in events if event["cat"] in ON_DEVICE]
    calls = [event for event in events if event["cat"] == "cuda_runtime"]
    launches = {call["args"]["correlation"]: call for call in calls if "correlation" in call.get("args", {})}
    ranges = [event for event in events if event["cat"] == "user_annotation" and event["name"] == "data"]
    found = dict.fromkeys(("device", "between", "data", "synchronisation", "launches", "hidden"), 0)
    busy = unite([span(event) for event in activities])
    found["device"] = sum(end - start for start, end in busy)
    for (_, start), (end, _) in pairwise(busy):
        enders = [launches[event["args"]["correlation"]] for event in activities if event["ts"] == end]
        launch = min(enders, key=lambda call: call["ts"])
        if launch["ts"] < start:
            found["between"] += end - start
            continue
        thread = (launch["pid"], launch["tid"])
        data = common([(start, end)], [span(event) for event in ranges if (event["pid"], event["tid"]) == thread])
        found["data"] += data
        earlier = [
            call
            for call in calls
            if (call["pid"], call["tid"]) == thread and call is not launch and call["ts"] + call["dur"] <= launch["ts"]
        ]
        last = max(earlier, key=lambda call: call["ts"] + call["dur"], default=None)
        waited = last is not None and last["name"] in SYNCHRONISES and start <= last["ts"] + last["dur"]
        found["synchronisation" if waited else "launches"] += end - start - data
    copies = [span(event) for event in activities if event["cat"] == "gpu_memcpy"]
    kernels = [span(event) for event in activities if event["cat"] == "kernel"]
    found["hidden"] = common(copies, kernels)
    names = ("device", "between", "data", "synchronisation", "launches")
    found["bottleneck"] = max(names, key=found.get)
    return found

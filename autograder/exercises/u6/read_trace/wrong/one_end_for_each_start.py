"""one end for each start

Keeps activities in a dictionary by their beginnings.
"""

from itertools import pairwise

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
SYNCHRONISES = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


def unite(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same time without overlaps, in order."""
    found = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def common(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> int:
    """How long both last."""
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in one for b in other)


def diagnose(events: list[dict]) -> dict:
    """Where the time of the device goes."""

    def spans(chosen):
        return unite([(one["ts"], one["ts"] + one["dur"]) for one in chosen])

    device = [one for one in events if one["cat"] in ON_DEVICE]
    launches = {one["args"]["correlation"]: one for one in events if one["cat"] == "cuda_runtime"}
    figures = dict.fromkeys(("device", "data", "synchronisation", "launches", "between"), 0)
    ends = {one["ts"]: one["ts"] + one["dur"] for one in device}
    busy = unite(list(ends.items()))
    figures["device"] = sum(end - start for start, end in busy)
    for (_, start), (end, _) in pairwise(busy):
        ending = [launches[one["args"]["correlation"]] for one in device if one["ts"] == end]
        launch = min(ending, key=lambda one: one["ts"])
        if launch["ts"] < start:
            figures["between"] += end - start
            continue
        mine = [one for one in events if (one["pid"], one["tid"]) == (launch["pid"], launch["tid"])]
        ranges = [one for one in mine if one["cat"] == "user_annotation" and one["name"] == "data"]
        data = common([(start, end)], spans(ranges))
        returned = [one["ts"] + one["dur"] for one in mine if one["name"] in SYNCHRONISES]
        waited = any(start <= time <= launch["ts"] for time in returned)
        figures["data"] += data
        figures["synchronisation" if waited else "launches"] += end - start - data
    bottleneck = max(figures, key=figures.get)
    copies = spans([one for one in device if one["cat"] == "gpu_memcpy"])
    kernels = spans([one for one in device if one["cat"] == "kernel"])
    return {**figures, "hidden": common(copies, kernels), "bottleneck": bottleneck}

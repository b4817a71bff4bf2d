"""Sweeps over the activities in their order, and keeps the end of the stretch that runs."""

from itertools import groupby

SYNCHRONISES = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


def end_of(event):
    return event["ts"] + event["dur"]


def merged(events):
    pairs = []
    for event in sorted(events, key=lambda one: one["ts"]):
        if pairs and event["ts"] <= pairs[-1][1]:
            pairs[-1][1] = max(pairs[-1][1], end_of(event))
        else:
            pairs.append([event["ts"], end_of(event)])
    return pairs


def shared(first, second):
    total, i, j = 0, 0, 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        total += max(0, high - low)
        if first[i][1] < second[j][1]:
            i += 1
        else:
            j += 1
    return total


def diagnose(events):
    by_correlation, activities = {}, []
    for event in events:
        if event["cat"].startswith("gpu_") or event["cat"] == "kernel":
            activities.append(event)
        elif event["cat"] == "cuda_runtime" and "correlation" in event["args"]:
            by_correlation[event["args"]["correlation"]] = event
    causes = {"device": 0, "data": 0, "synchronisation": 0, "launches": 0, "between": 0}
    reached = None
    activities.sort(key=lambda one: one["ts"])
    for start, group in groupby(activities, key=lambda one: one["ts"]):
        group = list(group)
        if reached is not None and start > reached:
            launch = min((by_correlation[one["args"]["correlation"]] for one in group), key=lambda one: one["ts"])
            gap = start - reached
            if launch["ts"] < reached:
                causes["between"] += gap
            else:
                thread = [one for one in events if (one["tid"], one["pid"]) == (launch["tid"], launch["pid"])]
                loading = merged(one for one in thread if (one["cat"], one["name"]) == ("user_annotation", "data"))
                data = shared([[reached, start]], loading)
                late = [one for one in thread if one["name"] in SYNCHRONISES and end_of(one) >= reached]
                waited = any(end_of(one) <= launch["ts"] for one in late)
                causes["data"] += data
                causes["synchronisation" if waited else "launches"] += gap - data
        furthest = max(end_of(one) for one in group)
        from_here = start if reached is None else max(reached, start)
        causes["device"] += max(0, furthest - from_here)
        reached = furthest if reached is None else max(reached, furthest)
    result = dict(causes)
    result["bottleneck"] = max(causes.items(), key=lambda pair: pair[1])[0]
    copies = merged(one for one in activities if one["cat"] == "gpu_memcpy")
    result["hidden"] = shared(copies, merged(one for one in activities if one["cat"] == "kernel"))
    return result

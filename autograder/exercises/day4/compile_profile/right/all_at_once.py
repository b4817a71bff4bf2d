"""Goes round all functions in turns, so that a machine that slows down does so for each; tensors for the arithmetic."""

import torch


def compile_profile(functions, clock, synchronize, warmup, repeats):
    seconds = {name: [] for name in functions}
    for turn in range(1 + warmup + repeats):
        for name, function in functions.items():
            synchronize()
            begin = clock()
            function()
            synchronize()
            end = clock()
            if turn == 0 or turn > warmup:
                seconds[name].append(end - begin)
    table = {}
    for name, (first, *timed) in seconds.items():
        call = torch.tensor(timed, dtype=torch.float64).quantile(0.5).item()
        table[name] = {"cost_seconds": first - call, "call_seconds": call}
    return table


def break_even(plain, compiled):
    figures = torch.tensor(
        [[row["cost_seconds"], row["call_seconds"]] for row in (plain, compiled)], dtype=torch.float64
    )
    more, lost = (figures[1] - figures[0]).tolist()
    if lost >= 0:
        return float("inf")
    return max(1, -int(more // lost))


def cheapest(profile, calls):
    names = list(profile)
    totals = [row["cost_seconds"] + calls * row["call_seconds"] for row in profile.values()]
    return names[totals.index(min(totals))]

"""wrong cost

Keeps the times in tensors of single precision, so that a small cost is lost.
"""

import math

import torch


def row_of(function, clock, synchronize, warmup, repeats):
    def timed():
        synchronize()
        started = clock()
        function()
        synchronize()
        return clock() - started

    first = timed()
    for _ in range(warmup):
        function()
    call = torch.tensor([timed() for _ in range(repeats)]).quantile(0.5).item()
    return {"cost_seconds": first - call, "call_seconds": call}


def compile_profile(functions, clock, synchronize, warmup, repeats):
    return {name: row_of(function, clock, synchronize, warmup, repeats) for name, function in functions.items()}


def break_even(plain, compiled):
    saved = plain["call_seconds"] - compiled["call_seconds"]
    if saved <= 0:
        return math.inf
    return max(1, math.ceil((compiled["cost_seconds"] - plain["cost_seconds"]) / saved))


def cheapest(profile, calls):
    return min(profile, key=lambda name: profile[name]["cost_seconds"] + calls * profile[name]["call_seconds"])

"""nearly equal

Takes a quotient that is nearly whole for whole, for fear of rounding errors.
"""

import math


def compile_profile(functions, clock, synchronize, warmup, repeats):
    rows = {}
    for name, function in functions.items():
        found = measure(function, clock, synchronize, warmup, repeats)
        call = found["median_seconds"]
        rows[name] = {"call_seconds": call, "cost_seconds": found["compile_seconds"] - call}
    return rows


def break_even(plain, compiled):
    saved = plain["call_seconds"] - compiled["call_seconds"]
    if saved <= 0:
        return math.inf
    return max(1, math.ceil(round((compiled["cost_seconds"] - plain["cost_seconds"]) / saved, 9)))


def cheapest(profile, calls):
    return min(profile, key=lambda name: profile[name]["cost_seconds"] + calls * profile[name]["call_seconds"])

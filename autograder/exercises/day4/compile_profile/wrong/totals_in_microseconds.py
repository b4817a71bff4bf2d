"""not the cheapest

Compares totals in whole microseconds.
"""

import math


def compile_profile(functions, clock, synchronize, warmup, repeats):
    rows = {}
    for name, function in functions.items():
        found = measure(function, clock, synchronize, warmup, repeats)
        median = found["median_seconds"]
        rows[name] = {"call_seconds": median, "cost_seconds": found["compile_seconds"] - median}
    return rows


def break_even(plain, compiled):
    saved = plain["call_seconds"] - compiled["call_seconds"]
    if saved <= 0:
        return math.inf
    return max(1, math.ceil((compiled["cost_seconds"] - plain["cost_seconds"]) / saved))


def cheapest(profile, calls):
    return min(
        profile, key=lambda name: round(profile[name]["cost_seconds"] + calls * profile[name]["call_seconds"], 6)
    )

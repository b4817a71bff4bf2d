"""nearly equal

Takes totals for equal where `math.isclose` does.
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
    return max(1, math.ceil((compiled["cost_seconds"] - plain["cost_seconds"]) / saved))


def cheapest(profile, calls):
    totals = {name: row["cost_seconds"] + calls * row["call_seconds"] for name, row in profile.items()}
    least = min(totals.values())
    return next(name for name, total in totals.items() if math.isclose(total, least))

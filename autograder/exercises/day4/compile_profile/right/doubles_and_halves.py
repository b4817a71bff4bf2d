"""Looks for the break-even by totals alone: doubles until it pays, then halves; and compares costs by difference."""

import math
from functools import reduce


def compile_profile(functions, clock, synchronize, warmup, repeats):
    rows = {}
    for name, function in functions.items():
        found = measure(function, clock, synchronize, warmup, repeats)
        call = found["median_seconds"]
        rows[name] = {"call_seconds": call, "cost_seconds": found["compile_seconds"] - call}
    return rows


def break_even(plain, compiled):
    if compiled["call_seconds"] >= plain["call_seconds"]:
        return math.inf

    def pays(calls):
        mine, other = (row["cost_seconds"] + calls * row["call_seconds"] for row in (compiled, plain))
        return mine <= other

    enough = 1
    while not pays(enough):
        enough *= 2
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        enough, too_few = (middle, too_few) if pays(middle) else (enough, middle)
    return enough


def cheapest(profile, calls):
    def better(best, name):
        more = profile[best]["cost_seconds"] - profile[name]["cost_seconds"]
        saved = profile[best]["call_seconds"] - profile[name]["call_seconds"]
        return name if more + calls * saved > 0 else best

    return reduce(better, profile)

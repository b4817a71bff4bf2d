"""another of two that are equal

Takes the first by the alphabet of those that are equal.
"""

from statistics import median


def compile_profile(functions, clock, synchronize, warmup, repeats):
    def timed(function):
        synchronize()
        start = clock()
        function()
        synchronize()
        return clock() - start

    profile = {}
    for name, function in functions.items():
        first = timed(function)
        [function() for _ in range(warmup)]
        call = median([timed(function) for _ in range(repeats)])
        profile[name] = {"call_seconds": call, "cost_seconds": first - call}
    return profile


def break_even(plain, compiled):
    saved = plain["call_seconds"] - compiled["call_seconds"]
    if saved <= 0:
        return math.inf
    return max(1, math.ceil((compiled["cost_seconds"] - plain["cost_seconds"]) / saved))


def cheapest(profile, calls):
    totals = {name: row["cost_seconds"] + calls * row["call_seconds"] for name, row in profile.items()}
    return min((total, name) for name, total in totals.items())[1]

"""gave up counting

It counts calls up to a million, and then says that compiling never pays.
"""


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
    for calls in range(1, 1_000_001):
        if compiled["cost_seconds"] - plain["cost_seconds"] <= calls * saved:
            return calls
    return math.inf


def cheapest(profile, calls):
    return min(profile, key=lambda name: profile[name]["cost_seconds"] + calls * profile[name]["call_seconds"])

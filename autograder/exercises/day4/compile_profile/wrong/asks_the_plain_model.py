"""failed on a hidden case

It takes for granted that the profile has a row for `eager`. A profile of compiled ways alone has none.
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
    return max(1, math.ceil((compiled["cost_seconds"] - plain["cost_seconds"]) / saved))


def cheapest(profile, calls):
    paying = [n for n in profile if n == "eager" or break_even(profile["eager"], profile[n]) <= calls]
    return min(paying, key=lambda name: profile[name]["cost_seconds"] + calls * profile[name]["call_seconds"])

"""device still busy

Waits after each call, so that only work from before can disturb: and does not wait for that.
"""

import math
import statistics


def compile_profile(functions, clock, synchronize, warmup, repeats):
    profile = {}
    for name, function in functions.items():
        seconds = []
        for _ in range(1 + warmup + repeats):
            started = clock()
            function()
            synchronize()
            seconds.append(clock() - started)
        call = statistics.median(seconds[1 + warmup :])
        profile[name] = {"cost_seconds": seconds[0] - call, "call_seconds": call}
    return profile


def break_even(plain, compiled):
    saved = plain["call_seconds"] - compiled["call_seconds"]
    if saved <= 0:
        return math.inf
    return max(1, math.ceil((compiled["cost_seconds"] - plain["cost_seconds"]) / saved))


def cheapest(profile, calls):
    return min(profile, key=lambda name: profile[name]["cost_seconds"] + calls * profile[name]["call_seconds"])

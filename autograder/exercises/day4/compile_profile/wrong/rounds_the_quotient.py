"""one call short

Rounds the quotient to three places before it is rounded up.
"""


def compile_profile(functions, clock, synchronize, warmup: int, repeats: int) -> dict[str, dict[str, float]]:
    """For each name what the first call costs more than others, and what a call takes then, in seconds."""
    profile = {}
    for name, function in functions.items():
        found = measure(function, clock, synchronize, warmup, repeats)
        call = found["median_seconds"]
        profile[name] = {"cost_seconds": found["compile_seconds"] - call, "call_seconds": call}
    return profile


def break_even(plain: dict[str, float], compiled: dict[str, float]) -> float:
    """After how many calls `compiled` has taken no more time than `plain`; `math.inf` for never."""
    saved = plain["call_seconds"] - compiled["call_seconds"]
    if saved <= 0:
        return math.inf
    return max(1, math.ceil(round((compiled["cost_seconds"] - plain["cost_seconds"]) / saved, 3)))


def cheapest(profile: dict[str, dict[str, float]], calls: int) -> str:
    """The name that takes least time for so many calls, the first one included."""
    return min(profile, key=lambda name: profile[name]["cost_seconds"] + calls * profile[name]["call_seconds"])

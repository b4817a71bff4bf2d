"""wrong break-even

Takes times that are close to each other for equal.
"""

import math
import statistics


def measure(function, clock, synchronize, warmup, repeats):
    def timed():
        synchronize()
        started = clock()
        function()
        synchronize()
        return clock() - started

    compile_seconds = timed()
    for _ in range(warmup):
        function()
    seconds = [timed() for _ in range(repeats)]
    first, _, third = statistics.quantiles(seconds, n=4, method="inclusive")
    return {
        "compile_seconds": compile_seconds,
        "median_seconds": statistics.median(seconds),
        "spread_seconds": third - first,
    }


def break_even_calls(compile_seconds, eager_seconds, compiled_seconds):
    if eager_seconds < compiled_seconds or math.isclose(eager_seconds, compiled_seconds):
        return math.inf
    return compile_seconds / (eager_seconds - compiled_seconds)

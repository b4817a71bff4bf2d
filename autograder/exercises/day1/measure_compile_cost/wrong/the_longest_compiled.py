"""compile cost wrong

Takes the longest of all calls for the first one.
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
        "compile_seconds": max(compile_seconds, *seconds),
        "median_seconds": statistics.median(seconds),
        "spread_seconds": third - first,
    }


def break_even_calls(compile_seconds, eager_seconds, compiled_seconds):
    saved = eager_seconds - compiled_seconds
    return compile_seconds / saved if saved > 0 else math.inf

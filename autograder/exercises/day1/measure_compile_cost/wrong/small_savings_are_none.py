"""wrong break-even

What saves less than a microsecond a call saves nothing.
"""

import math
import statistics


def measure(function, clock, synchronize, warmup, repeats):
    def timed():
        synchronize()
        start = clock()
        function()
        synchronize()
        return clock() - start

    first = timed()
    for _ in range(warmup):
        function()
    values = [timed() for _ in range(repeats)]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"compile_seconds": first, "median_seconds": statistics.median(values), "spread_seconds": high - low}


def break_even_calls(compile_seconds, eager_seconds, compiled_seconds):
    saved = eager_seconds - compiled_seconds
    return compile_seconds / saved if saved > 1e-6 else math.inf

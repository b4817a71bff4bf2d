"""wrong number of calls

Warms up at least once, also where no warm-up was asked for.
"""

import math
import statistics


def measure(function, clock, synchronize, warmup, repeats):
    def timed():
        start = clock()
        function()
        synchronize()
        return clock() - start

    synchronize()
    first = timed()
    for _ in range(max(1, warmup)):
        function()
    synchronize()
    values = sorted(timed() for _ in range(repeats))
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"compile_seconds": first, "median_seconds": middle, "spread_seconds": high - low}


def break_even_calls(compile_seconds, eager_seconds, compiled_seconds):
    return compile_seconds / (eager_seconds - compiled_seconds) if eager_seconds > compiled_seconds else math.inf

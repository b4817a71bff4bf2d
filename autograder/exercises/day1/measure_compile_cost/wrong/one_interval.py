"""one interval for all

Times all runs at once and divides.
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
    synchronize()
    started = clock()
    for _ in range(repeats):
        function()
    synchronize()
    average = (clock() - started) / repeats
    return {
        "compile_seconds": compile_seconds,
        "median_seconds": average,
        "spread_seconds": 0.0,
    }


def break_even_calls(compile_seconds, eager_seconds, compiled_seconds):
    saved = eager_seconds - compiled_seconds
    return compile_seconds / saved if saved > 0 else math.inf

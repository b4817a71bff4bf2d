"""wrong number of calls

Warms up once more, to be on the safe side.

Also: warm-up counted.
"""

import math
import statistics


def measure(function, clock, synchronize, warmup: int, repeats: int) -> dict[str, float]:
    """Compile cost and steady state of `function`, in seconds."""

    def timed():
        synchronize()
        started = clock()
        function()
        synchronize()
        return clock() - started

    compile_seconds = timed()
    for _ in range(warmup + 1):
        function()
    seconds = [timed() for _ in range(repeats)]
    first, _, third = statistics.quantiles(seconds, n=4, method="inclusive")
    return {
        "compile_seconds": compile_seconds,
        "median_seconds": statistics.median(seconds),
        "spread_seconds": third - first,
    }


def break_even_calls(compile_seconds: float, eager_seconds: float, compiled_seconds: float) -> float:
    """After how many calls compiling has paid for itself; `math.inf` for never."""
    saved = eager_seconds - compiled_seconds
    return compile_seconds / saved if saved > 0 else math.inf

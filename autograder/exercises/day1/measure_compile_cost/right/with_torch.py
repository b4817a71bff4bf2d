"""A stopwatch class, and quantiles computed by torch in double precision."""

import math

import torch


class Stopwatch:
    def __init__(self, clock, synchronize):
        self.clock, self.synchronize = clock, synchronize

    def __enter__(self):
        self.synchronize()
        self.start = self.clock()
        return self

    def __exit__(self, *error):
        self.synchronize()
        self.seconds = self.clock() - self.start


def measure(function, clock, synchronize, warmup, repeats):
    with Stopwatch(clock, synchronize) as first:
        function()
    [function() for _ in range(warmup)]
    seconds = []
    while len(seconds) < repeats:
        with Stopwatch(clock, synchronize) as run:
            function()
        seconds.append(run.seconds)
    quarters = torch.quantile(torch.tensor(seconds, dtype=torch.float64), torch.tensor([0.25, 0.5, 0.75]).double())
    low, middle, high = quarters.tolist()
    return {"compile_seconds": first.seconds, "median_seconds": middle, "spread_seconds": high - low}


def break_even_calls(compile_seconds, eager_seconds, compiled_seconds):
    saved = eager_seconds - compiled_seconds
    return compile_seconds / saved if saved > 0 else math.inf

"""Reads the clock into lists, and computes quartiles by sorting and interpolating."""


def _quantile(values, share):
    values = sorted(values)
    position = share * (len(values) - 1)
    low = int(position)
    return values[low] + (values[low + 1] - values[low]) * (position - low)


def measure(function, clock, synchronize, warmup, repeats):
    durations = []
    for number in range(1 + warmup + repeats):
        synchronize()
        begin = clock()
        function()
        synchronize()
        durations.append(clock() - begin)
    steady = durations[1 + warmup :]
    return dict(
        compile_seconds=durations[0],
        median_seconds=_quantile(steady, 0.5),
        spread_seconds=_quantile(steady, 0.75) - _quantile(steady, 0.25),
    )


def break_even_calls(compile_seconds, eager_seconds, compiled_seconds):
    if eager_seconds <= compiled_seconds:
        return float("inf")
    return compile_seconds / (eager_seconds - compiled_seconds)

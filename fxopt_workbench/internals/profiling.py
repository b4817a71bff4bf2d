"""A profile of what a unit's script demonstrates, a range for each thing that is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from fxopt_workbench.internals.memory_curve import quiet

ROWS = 24
"""Lines of a profile: the ranges and operators that took longest; more, where a range was shorter than those."""


def profiled(ranges: Mapping[str, Callable[[], object]]) -> str:
    """What `torch.profiler` saw of one run of each: a range with its name, and the operators below it.

    Args:
        ranges: what to run, in order, by the name that its range gets.

    Returns:
        The profiler's table, times in its own units, the longest range first.
    """
    with quiet(), profile(activities=[ProfilerActivity.CPU]) as found:
        # What the profiler sets up with its first events belongs to none of them.
        with record_function("warm-up"):
            torch.ones(1).add(1)
        for name, run in ranges.items():
            with record_function(name):
                run()
    seen = found.key_averages()
    longest_first = [event.key for event in sorted(seen, key=lambda event: event.cpu_time_total, reverse=True)]
    # The profile is about the ranges: on a busy machine a short one can come behind any number of operators.
    lines = max([ROWS, *(longest_first.index(name) + 1 for name in ranges)])
    table: str = seen.table(sort_by="cpu_time_total", row_limit=lines, max_name_column_width=44)
    return table

"""How much memory one call needs at its peak."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

from fxopt_core import devices


def peak_bytes(function: Callable[[], object], device: torch.device) -> int | None:
    """Most bytes of tensors that one call of `function` holds at a time, beyond what was held before it.

    On CUDA the allocator's own counter is read. The CPU allocator has none, so `torch.profiler` records
    each allocation and release of tensor memory, and the highest running total is taken. What a kernel
    allocates without PyTorch's allocator (inside a vendor library, say) is in neither.

    Returns:
        Bytes, or `None` on a device where nothing measures them (MPS).
    """
    if device.type == "cpu":
        return _peak_on_cpu(function)
    if not devices.capabilities(device).memory_counters:
        return None
    devices.synchronize(device)
    devices.reset_peak_memory(device)
    before = devices.peak_memory_bytes(device)
    function()
    devices.synchronize(device)
    after = devices.peak_memory_bytes(device)
    return None if before is None or after is None else after - before


def _peak_on_cpu(function: Callable[[], object]) -> int:
    quiet = "KINETO_LOG_LEVEL"
    before = os.environ.get(quiet)
    # From torch 2.13 on, the profiler writes its process id to stderr, and so into notebooks.
    os.environ.setdefault(quiet, "99")
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
            result = function()
    finally:
        if before is None:
            del os.environ[quiet]
    del result
    events = profile.profiler.kineto_results.events()
    changes = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    total = peak = 0
    # Stable: what happened in the same nanosecond keeps its order.
    for _, change in sorted(changes, key=lambda moment: moment[0]):
        total += change
        peak = max(peak, total)
    return peak

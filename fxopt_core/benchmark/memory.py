"""How much memory one call needs at its peak."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fxopt_core import devices
from fxopt_core.costs import record_allocations


def peak_bytes(function: Callable[[], object], device: torch.device) -> int | None:
    """Most bytes of tensors that one call of `function` holds at a time, beyond what was held before it.

    On CUDA the allocator's own counter is read. The CPU allocator has none, so `torch.profiler` records
    each allocation and release of tensor memory, and the highest running total is taken. What a kernel
    allocates without PyTorch's allocator (inside a vendor library, say) is in neither.

    Returns:
        Bytes, or `None` on a device where nothing measures them (MPS).
    """
    if device.type == "cpu":
        _, record = record_allocations(function)
        return record.peak_bytes()
    if device.type != "cuda":
        return None
    devices.synchronize(device)
    devices.reset_peak_memory(device)
    before = devices.peak_memory_bytes(device)
    function()
    devices.synchronize(device)
    after = devices.peak_memory_bytes(device)
    return None if before is None or after is None else after - before

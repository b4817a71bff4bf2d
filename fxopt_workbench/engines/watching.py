"""What is watched while an engine is tried: time, memory, and results that change afterwards."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

WARM_UP = 3
"""Calls before anything is timed."""

LEAK_SECONDS, LEAK_CALLS = 0.5, 100
"""How long, and how often at most, an engine is called twice over to see whether its memory keeps growing."""

LEAK_BYTES = 4 << 20
"""By so much the memory has to grow, and in the second half again, to count as a leak."""


def time_calls(call: Callable[[], object], calls: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one call, of so many in a row. The garbage collector waits meanwhile."""
    gc.disable()
    try:
        start = clock()
        for _ in range(calls):
            call()
        return (clock() - start) / calls
    finally:
        gc.enable()


def grows_by(call: Callable[[], object], resident: Callable[[], int | None]) -> float:
    """Bytes a call by which the memory of this process keeps growing; 0 where it does not, or nobody knows."""
    seen: list[int] = []
    calls: list[int] = []
    for _ in range(2):
        before, count, start = resident(), 0, time.monotonic()
        while count < LEAK_CALLS and (count < WARM_UP or time.monotonic() - start < LEAK_SECONDS):
            call()
            count += 1
        after = resident()
        if before is None or after is None:
            return 0.0
        seen.append(after - before)
        calls.append(count)
    return sum(seen) / sum(calls) if min(seen) > LEAK_BYTES else 0.0


def resident_bytes(process: int | str = "self") -> int | None:
    """Memory that a process holds; `None` where the system does not say."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return None


def overwritten(first: Sequence[torch.Tensor], copies: Sequence[torch.Tensor]) -> bool:
    """Whether tensors are no longer what they were."""
    return not all(
        torch.equal(one.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8))
        for one, other in zip(first, copies, strict=True)
        if one.numel()
    )

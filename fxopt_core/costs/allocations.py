"""Tensor memory over the course of one call, from allocation events."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch

from fxopt_core.display import Displayable

_MARK = "fxopt::mark "
_QUIET = "KINETO_LOG_LEVEL"


@dataclass(frozen=True)
class Block:
    """One block of memory that was allocated during the call.

    Attributes:
        address: of its first byte.
        size: in bytes, as the allocator was asked for it.
        start: number of the event that allocated it.
        end: number of the event that freed it; `None` while it is alive at the end of the call.
    """

    address: int
    size: int
    start: int
    end: int | None


@dataclass(frozen=True)
class AllocationRecord(Displayable):
    """Every allocation and release of tensor memory during one call, in order.

    An *event* is an allocation or a release on the recorded device. *Live bytes* after an event are the bytes of
    blocks that were allocated during the call and are not yet freed. What was alive before the call is never
    counted, nor is its release. Memory that a kernel takes past PyTorch's allocator (inside a vendor library) is
    not seen.

    Attributes:
        blocks: in the order of their allocation.
        events: how many events there were.
        marks: label of each `mark` and the number of events before it, in order.
    """

    blocks: tuple[Block, ...]
    events: int
    marks: tuple[tuple[str, int], ...]

    def live_bytes(self, *, without: Iterable[torch.Tensor] = ()) -> list[int]:
        """Live bytes before the first event and after each (so one more than there are events).

        Args:
            without: tensors that are alive at the end of the call and whose memory does not count, from its
                allocation on: parameters, gradients, optimiser state.
        """
        kept = {tensor.untyped_storage().data_ptr() for tensor in without}
        changes = [0] * (self.events + 1)
        for block in self.blocks:
            if block.end is None and block.address in kept:
                continue
            changes[block.start] += block.size
            if block.end is not None:
                changes[block.end] -= block.size
        return list(accumulate(changes))

    def peak_bytes(self, *, without: Iterable[torch.Tensor] = ()) -> int:
        """Most live bytes at any moment; for `without` see `live_bytes`."""
        return max(self.live_bytes(without=without))


def mark(label: str) -> None:
    """Note a moment of the call that `record_allocations` records; elsewhere it does nothing."""
    with torch.profiler.record_function(_MARK + label):
        pass


def record_allocations(function: Callable[[], Any], device: torch.device | str = "cpu") -> tuple[Any, AllocationRecord]:
    """Call `function` once and record what it allocates on a kind of device.

    Args:
        function: what to call.
        device: `cpu` or `cuda`. All devices of the kind count together.

    Returns:
        What the function returned, and the record.

    Raises:
        ValueError: the device is of another kind; its allocator reports no events.
    """
    kind = torch.device(device).type
    if kind not in ("cpu", "cuda"):
        raise ValueError(f"allocations are recorded on cpu and cuda, not on {kind}: its allocator reports no events.")
    with ExitStack() as stack:
        # From torch 2.13 on, the profiler writes its process id to stderr, and so into notebooks.
        if _QUIET not in os.environ:
            os.environ[_QUIET] = "99"
            stack.callback(os.environ.pop, _QUIET)
        activities = [torch.profiler.ProfilerActivity.CPU]
        profile = stack.enter_context(torch.profiler.profile(activities=activities, profile_memory=True))
        result = function()
    # The tree, because the flat list of events has no addresses.
    tree = profile.profiler.kineto_results.experimental_event_tree()
    blocks: list[Block] = []
    alive: dict[tuple[int, int], int] = {}
    marks = []
    events = 0
    # Sorting is stable: what happened in the same nanosecond keeps its order.
    for event in sorted(_walk(tree), key=lambda event: event.start_time_ns):
        if event.name.startswith(_MARK):
            marks.append((event.name.removeprefix(_MARK), events))
            continue
        fields = event.extra_fields
        if event.tag.name != "Allocation" or fields.device.type != kind:
            continue
        events += 1
        place = (fields.device.index, fields.ptr)
        if fields.alloc_size > 0:
            alive[place] = len(blocks)
            blocks.append(Block(fields.ptr, fields.alloc_size, events, None))
        elif place in alive:
            number = alive.pop(place)
            block = blocks[number]
            blocks[number] = Block(block.address, block.size, block.start, events)
    return result, AllocationRecord(tuple(blocks), events, tuple(marks))


def _walk(events: list[Any]) -> Iterator[Any]:
    waiting = list(reversed(events))
    while waiting:
        event = waiting.pop()
        yield event
        waiting.extend(reversed(event.children))

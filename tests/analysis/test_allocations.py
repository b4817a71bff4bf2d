"""Recorded allocations agree with programs whose memory can be counted by hand."""

from __future__ import annotations

import pytest
import torch

from fxopt_core.costs import mark, record_allocations


def test_three_tensors_freed_in_a_known_order() -> None:
    def program() -> torch.Tensor:
        a = torch.empty(1000)  # 4000 bytes
        mark("two")
        b = torch.empty(2000)  # 8000
        del a
        c = torch.empty(500)  # 2000
        del b
        return c

    result, record = record_allocations(program)
    assert record.live_bytes() == [0, 4000, 12000, 8000, 10000, 2000]
    assert record.peak_bytes() == 12000
    assert record.marks == (("two", 1),)
    assert [(block.size, block.start, block.end) for block in record.blocks] == [
        (4000, 1, 3),
        (8000, 2, 5),
        (2000, 4, None),
    ]
    assert record.blocks[2].address == result.untyped_storage().data_ptr()


def test_a_result_that_does_not_count_does_so_from_its_allocation_on() -> None:
    def program() -> torch.Tensor:
        kept = torch.empty(1000)
        passing = torch.empty(10)
        del passing
        return kept

    result, record = record_allocations(program)
    assert record.peak_bytes() == 4040
    assert record.live_bytes(without=[result]) == [0, 0, 40, 0]
    assert record.peak_bytes(without=[result[3:]]) == 40, "a view stands for its memory"


def test_memory_that_was_used_again_is_told_apart() -> None:
    def program() -> torch.Tensor:
        for _ in range(3):
            del_me = torch.empty(1000)
            del del_me
        return torch.empty(1000)

    result, record = record_allocations(program)
    assert record.peak_bytes() == 4000
    assert record.peak_bytes(without=[result]) == 4000, "the earlier blocks count though they had the same address"


def test_what_was_alive_before_counts_neither_way() -> None:
    held = [torch.empty(5000)]

    def program() -> None:
        held.clear()
        torch.empty(100)

    _, record = record_allocations(program)
    live = record.live_bytes()
    assert (min(live), max(live), live[-1]) == (0, 400, 0)


def test_a_training_step_with_its_gradient_and_without() -> None:
    weight = torch.randn(1000, requires_grad=True)

    def step() -> None:
        # Two results of 4000 bytes that are saved for backward, and the sum of 4.
        weight.exp().exp().sum().backward()

    _, record = record_allocations(step)
    assert weight.grad is not None
    assert record.live_bytes()[-1] == 4000
    live = record.live_bytes(without=[weight.grad])
    assert live[-1] == 0
    assert live[:3] == [0, 4000, 8000]
    # In backward of the outer exponential, its result and the inner one's are still held beside its gradient.
    assert record.peak_bytes(without=[weight.grad]) == 8000 + 4000 + 4 + 4


def test_nothing_allocated() -> None:
    result, record = record_allocations(lambda: 3)
    assert result == 3
    assert record.live_bytes() == [0]
    assert record.peak_bytes() == 0


def test_the_profiler_is_stopped_when_the_call_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        record_allocations(lambda: 1 / 0)
    assert record_allocations(lambda: torch.empty(10))[1].peak_bytes() == 40


def test_a_device_without_events_is_refused() -> None:
    with pytest.raises(ValueError, match="cpu and cuda, not on mps"):
        record_allocations(lambda: None, "mps")

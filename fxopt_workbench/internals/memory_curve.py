"""How many bytes of tensors there are, moment by moment, as `torch.profiler` saw them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from torch.profiler import profile

from fxopt_workbench.tables import aligned, format_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_LOG_LEVEL = "KINETO_LOG_LEVEL"


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps the profiler's own log out of a block: from torch 2.13 on it writes its process id between the results.

    The first profile of a process decides; after a loud one nothing helps.
    """
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = "99"
    try:
        yield
    finally:
        del os.environ[_LOG_LEVEL]


@dataclass(frozen=True)
class Range:
    """A range that `record_function` made.

    Attributes:
        name: its name.
        start: in microseconds from the beginning of the profile.
        end: the same.
    """

    name: str
    start: float
    end: float


@dataclass(frozen=True)
class MemoryCurve:
    """Bytes over time, counted from 0 when the profile began: what was there before doesn't count.

    Attributes:
        times: of each allocation and each release, in microseconds from the beginning of the profile.
        held: bytes after each of them.
        ranges: in the order in which they began.
    """

    times: tuple[float, ...]
    held: tuple[int, ...]
    ranges: tuple[Range, ...]

    @property
    def peak(self) -> int:
        """Most bytes at a time."""
        return max(self.held, default=0)

    @property
    def peak_time(self) -> float:
        """When they were first reached, in microseconds."""
        return self.times[self.held.index(self.peak)] if self.held else 0.0

    def at(self, time: float) -> int:
        """Bytes at a time: what the last change before it, or at it, left."""
        before = [held for when, held in zip(self.times, self.held, strict=True) if when <= time]
        return before[-1] if before else 0

    def most_in(self, one: Range) -> int:
        """Most bytes within a range."""
        inside = (held for when, held in zip(self.times, self.held, strict=True) if one.start <= when <= one.end)
        return max([self.at(one.start), *inside])

    @property
    def outermost(self) -> tuple[Range, ...]:
        """The ranges that lie within no other."""
        found: list[Range] = []
        for one in self.ranges:
            if not found or one.start >= found[-1].end:
                found.append(one)
        return tuple(found)

    @property
    def text(self) -> str:
        """The text twin of the picture: bytes at the beginning of each range, at most, and at its end."""
        rows = [
            [one.name, *(format_bytes(size) for size in (self.at(one.start), self.most_in(one), self.at(one.end)))]
            for one in self.ranges
        ]
        where = ", ".join(one.name for one in self.ranges if one.start <= self.peak_time <= one.end)
        last = f"At most {format_bytes(self.peak)}{f', in {where}' if where else ''}."
        return "\n".join([*aligned(["range", "at first", "at most", "at the end"], rows), last])

    def draw(self, title: str) -> Figure:
        """The curve, with a named stripe for each range. `text` says the same."""
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(figsize=(7.5, 3), layout="constrained")
        end = max([*self.times, *(one.end for one in self.ranges), 1.0])
        axes.step([0, *self.times, end], [0, *(size / 2**20 for size in self.held), self.at(end) / 2**20], where="post")
        for number, one in enumerate(self.outermost):
            axes.axvspan(one.start, one.end, facecolor="tab:orange" if number % 2 else "tab:gray", alpha=0.15)
            axes.annotate(
                one.name,
                ((one.start + one.end) / 2, 1.02),
                xycoords=("data", "axes fraction"),
                ha="center",
                fontsize=9,
            )
        axes.plot(self.peak_time, self.peak / 2**20, "kv", label=f"peak: {format_bytes(self.peak)}")
        axes.set_title(title, pad=20)
        axes.set(xlabel="µs", ylabel="MiB", xlim=(0, end), ylim=(0, None))
        axes.legend(loc="lower right")
        pyplot.close(figure)
        return figure


def memory_curve(profiler: profile) -> MemoryCurve:
    """The bytes of tensors that a profile saw come and go.

    Args:
        profiler: a profile that has ended, made with `profile_memory=True`.

    Raises:
        ValueError: the profile saw no allocation at all.
    """
    results = profiler.profiler.kineto_results if profiler.profiler is not None else None
    events: list[Any] = list(results.events()) if results is not None else []
    changes = sorted((one.start_ns(), one.nbytes()) for one in events if one.name() == "[memory]")
    if not changes:
        raise ValueError("this profile saw no memory: make it with profile(profile_memory=True), and let it end")
    begin = min(one.start_ns() for one in events)
    ranges = sorted(
        (one.start_ns(), one.start_ns() + one.duration_ns(), one.name()) for one in events if one.is_user_annotation()
    )
    return MemoryCurve(
        tuple((when - begin) / 1000 for when, _ in changes),
        tuple(accumulate(size for _, size in changes)),
        tuple(Range(name, (start - begin) / 1000, (end - begin) / 1000) for start, end, name in ranges),
    )

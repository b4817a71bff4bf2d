"""Traces of a host and a device in virtual time: what a profiler would write if every duration were the one you chose.

Nothing is measured here, and nothing is claimed about any machine. A program of calls plays on one thread of a host;
kernels and copies queue on streams. What comes out has the form of the traces that `torch.profiler` exports for Chrome
and Perfetto, with the same categories, so that you can practise reading them where there is no GPU. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Event = dict[str, Any]
"""A complete event of a trace: `name`, `cat`, `ph` (`"X"`), `ts` and `dur` in microseconds, `pid`, `tid`, `args`."""

HOST, DEVICE = 1, 0
"""Numbers of the two processes in a trace."""

MAIN_THREAD, LOADER_THREAD = 1, 2

COMPUTE, COPIES = 7, 20
"""Numbers of the streams that programs here use."""

ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
"""Categories of what runs on the device."""


class Timeline:
    """A host and a device, and the events that they leave behind.

    Attributes:
        now: where the host's main thread is, in microseconds.
        launch_cost: how long a call that launches something takes the host, in microseconds.
        pause: shortest time between two activities of one stream, in microseconds.
        events: in the order of the calls.
    """

    def __init__(self, launch_cost: int = 4, pause: int = 1) -> None:
        if launch_cost < 1 or pause < 0:
            raise ValueError(f"a launch takes at least 1 µs and a pause at least 0, not {launch_cost} and {pause}")
        self.now = 0
        self.launch_cost = launch_cost
        self.pause = pause
        self.events: list[Event] = []
        self._ends: dict[int, int] = {}
        self._waits: dict[int, int] = {}
        self._correlation = 0

    def host(self, name: str, duration: int) -> None:
        """Work of the host, such as preparing a call."""
        self._add(name, "cpu_op", self.now, duration, HOST, MAIN_THREAD)
        self.now += duration

    @contextmanager
    def range(self, name: str) -> Iterator[None]:
        """A range with a name around what the host does in a `with` block, as `record_function` makes it."""
        start = self.now
        yield
        self._add(name, "user_annotation", start, self.now - start, HOST, MAIN_THREAD)

    def elsewhere(self, name: str, start: int, duration: int) -> None:
        """A range on another thread of the host, such as one that loads data."""
        self._add(name, "user_annotation", start, duration, HOST, LOADER_THREAD)

    def launch(self, name: str, duration: int, stream: int = COMPUTE) -> None:
        """Launch a kernel. The host goes on; the kernel runs when its stream has come to it."""
        self._enqueue("cudaLaunchKernel", name, "kernel", duration, stream)

    def copy(self, name: str, duration: int, stream: int = COMPUTE, *, blocking: bool = False) -> None:
        """Start a copy. One that is blocking, as from memory that isn't pinned, makes the host wait for its stream."""
        self._enqueue("cudaMemcpyAsync", name, "gpu_memcpy", duration, stream)
        if blocking:
            self.synchronize(stream)

    def wait(self, stream: int, other: int) -> None:
        """Let a stream wait for all that another one has been given so far. The host goes on."""
        self._call("cudaStreamWaitEvent", 1)
        self._waits[stream] = max(self._waits.get(stream, 0), self._ends.get(other, 0))

    def synchronize(self, stream: int | None = None) -> None:
        """The host waits for a stream, or for the whole device."""
        ends = [end for one, end in self._ends.items() if stream in (None, one)]
        end = max([self.now + 1, *ends])
        self._call("cudaDeviceSynchronize" if stream is None else "cudaStreamSynchronize", end - self.now)

    def trace(self) -> list[Event]:
        """The events by time, as in `json.load(file)["traceEvents"]`."""
        return sorted(self.events, key=lambda event: (event["ts"], -event["dur"]))

    def _enqueue(self, call: str, name: str, category: str, duration: int, stream: int) -> None:
        link = self._call(call, self.launch_cost)
        free = self._ends[stream] + self.pause if stream in self._ends else 0
        start = max(self.now, free, self._waits.get(stream, 0))
        self._add(name, category, start, duration, DEVICE, stream, stream=stream, correlation=link)
        self._ends[stream] = start + duration

    def _call(self, name: str, duration: int) -> int:
        """A call of the runtime, which has a correlation id like every other, whether it launches something or not."""
        self._correlation += 1
        self._add(name, "cuda_runtime", self.now, duration, HOST, MAIN_THREAD, correlation=self._correlation)
        self.now += duration
        return self._correlation

    def _add(self, name: str, category: str, start: int, duration: int, pid: int, tid: int, **args: int) -> None:
        place = {"ts": start, "dur": duration, "pid": pid, "tid": tid, "args": args}
        self.events.append({"name": name, "cat": category, "ph": "X", **place})


def training_loop(
    steps: int = 3,
    *,
    load: int = 10,
    loader_thread: bool = False,
    kernels: tuple[int, ...] = (60, 80, 60),
    prepare: int = 2,
    bookkeeping: int = 0,
    copy: int = 20,
    copy_stream: bool = False,
    pinned: bool = True,
    reads_loss: bool = False,
    synchronize_at: int = -1,
    launch_cost: int = 4,
) -> list[Event]:
    """The trace of a training loop. All durations are in microseconds, and your choice.

    Args:
        steps: how many.
        load: how long loading a batch takes.
        loader_thread: another thread loads; the main one only takes what is there.
        kernels: durations of a step's kernels.
        prepare: what the host does before each launch.
        bookkeeping: what else the host does at the beginning of a step.
        copy: how long the batch's copy takes.
        copy_stream: copies run on a stream of their own.
        pinned: the batch lies in pinned memory; else its copy blocks the host.
        reads_loss: each step ends with `loss.item()`: a small copy, and the host waits for it.
        synchronize_at: number of the kernel after which each step waits for the device; -1 for none.
        launch_cost: how long each launch takes the host.
    """
    line = Timeline(launch_cost)
    stream = COPIES if copy_stream else COMPUTE
    for step in range(steps):
        with line.range(f"ProfilerStep#{step}"):
            if bookkeeping:
                line.host("bookkeeping", bookkeeping)
            if loader_thread:
                line.elsewhere("data", line.now, load)
                line.host("take batch", 1)
            else:
                with line.range("data"):
                    line.host("load batch", load)
            line.copy("Memcpy HtoD", copy, stream, blocking=not pinned)
            if copy_stream:
                line.wait(COMPUTE, COPIES)
            for number, duration in enumerate(kernels):
                line.host(f"aten::op_{number}", prepare)
                line.launch(f"kernel_{number}", duration)
                if number == synchronize_at:
                    line.synchronize()
            if reads_loss:
                line.copy("Memcpy DtoH", 1, blocking=True)
    return line.trace()

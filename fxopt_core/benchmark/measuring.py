"""Timing a function: when the clock is read, and what the readings say together."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Clock = Callable[[], float]
"""Returns seconds since some fixed moment."""


def _nothing() -> None:
    """Stands for waiting where nothing is queued."""


@dataclass(frozen=True)
class Measurement:
    """Seconds of each timed call, in the order of the calls.

    The median and the quartiles say more than mean and deviation here: a busy machine makes some calls
    much slower and none much faster.
    """

    seconds: tuple[float, ...]

    @property
    def runs(self) -> int:
        """How many calls were timed."""
        return len(self.seconds)

    @property
    def median(self) -> float:
        """Half the calls took at most this many seconds."""
        return statistics.median(self.seconds)

    @property
    def minimum(self) -> float:
        """Seconds of the fastest call: the one that was disturbed least."""
        return min(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """First and third quartile in seconds, interpolated (both are the value of a single call)."""
        if len(self.seconds) == 1:
            return self.seconds[0], self.seconds[0]
        first, _, third = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return first, third

    @property
    def interquartile_range(self) -> float:
        """Width in seconds of the middle half of the calls."""
        first, third = self.quartiles
        return third - first


def time_once(
    function: Callable[[], object], *, clock: Clock = time.perf_counter, synchronize: Callable[[], None] = _nothing
) -> float:
    """Seconds of one call of `function`, device work included.

    The device is waited for before each reading of the clock: before the first so that earlier work is not
    counted, before the second so that this call's work is. The result is freed after the second.
    """
    synchronize()
    start = clock()
    result = function()
    synchronize()
    seconds = clock() - start
    del result
    return seconds


def measure(
    function: Callable[[], object],
    *,
    clock: Clock = time.perf_counter,
    synchronize: Callable[[], None] = _nothing,
    warmup: int = 5,
    repeats: int = 30,
) -> Measurement:
    """Time `function` in the steady state.

    Args:
        function: what to time; called `warmup + repeats` times.
        clock: returns seconds; read exactly twice a timed call and never during the warm-up.
        synchronize: waits until the device has finished.
        warmup: calls that are not timed.
        repeats: calls that are.

    Raises:
        ValueError: `warmup` is negative or `repeats` is below 1.
    """
    only = measure_interleaved({"": function}, clock=clock, synchronize=synchronize, warmup=warmup, repeats=repeats)
    return only[""]


def measure_interleaved(
    functions: Mapping[str, Callable[[], object]],
    *,
    clock: Clock = time.perf_counter,
    synchronize: Callable[[], None] = _nothing,
    warmup: int = 5,
    repeats: int = 30,
) -> dict[str, Measurement]:
    """Time several functions in turn (A B C A B C ...), so that a disturbance hits all alike.

    Arguments and errors are those of `measure`; the warm-up goes round in the same order.
    """
    if warmup < 0 or repeats < 1:
        raise ValueError(
            f"warmup={warmup} and repeats={repeats}: warm-up calls cannot be negative and at least one call is timed"
        )
    for _ in range(warmup):
        for function in functions.values():
            function()
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            seconds[name].append(time_once(function, clock=clock, synchronize=synchronize))
    return {name: Measurement(tuple(values)) for name, values in seconds.items()}


def break_even_calls(compile_seconds: float, eager_seconds: float, compiled_seconds: float) -> float:
    """After how many calls compiling has paid for itself.

    Compiling costs `compile_seconds` once and saves `eager_seconds - compiled_seconds` a call, so the answer
    is their ratio; it need not be whole.

    Args:
        compile_seconds: what compiling costs once.
        eager_seconds: a call without compiling, in the steady state.
        compiled_seconds: a compiled call, in the steady state.

    Returns:
        The number of calls; infinity when a compiled call is not faster ("never").

    Raises:
        ValueError: an argument is negative or not a number.
    """
    for name, value in (
        ("compile_seconds", compile_seconds),
        ("eager_seconds", eager_seconds),
        ("compiled_seconds", compiled_seconds),
    ):
        if not value >= 0:
            raise ValueError(f"{name}={value} must be a number of seconds that is not negative")
    saved = eager_seconds - compiled_seconds
    return compile_seconds / saved if saved > 0 else float("inf")

"""Measuring, proved with a clock that follows a script; no real time is looked at."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fxopt_core.benchmark import Measurement, break_even_calls, measure, measure_interleaved, time_once


class Script:
    """Clock, device and functions that write down the order in which they are used."""

    def __init__(self, readings: list[float]) -> None:
        self.events: list[str] = []
        self._readings: Iterator[float] = iter(readings)

    def clock(self) -> float:
        self.events.append("clock")
        return next(self._readings)

    def synchronize(self) -> None:
        self.events.append("synchronize")

    def function(self, name: str = "call") -> Callable[[], None]:
        return lambda: self.events.append(name)


def test_the_device_is_waited_for_before_each_reading_of_the_clock() -> None:
    script = Script([10.0, 12.5])
    assert time_once(script.function(), clock=script.clock, synchronize=script.synchronize) == 2.5
    assert script.events == ["synchronize", "clock", "call", "synchronize", "clock"]


def test_warm_up_is_not_timed() -> None:
    script = Script([0.0, 1.0, 5.0, 8.0])
    measurement = measure(script.function(), clock=script.clock, synchronize=script.synchronize, warmup=3, repeats=2)
    assert script.events == ["call"] * 3 + ["synchronize", "clock", "call", "synchronize", "clock"] * 2
    assert measurement.seconds == (1.0, 3.0)


def test_candidates_take_turns() -> None:
    script = Script([float(reading) for reading in range(12)])
    functions = {name: script.function(name) for name in "ABC"}
    measured = measure_interleaved(functions, clock=script.clock, warmup=1, repeats=2)
    assert [event for event in script.events if event != "clock"] == list("ABCABCABC")
    assert script.events[:3] == list("ABC")
    assert {name: measurement.runs for name, measurement in measured.items()} == {"A": 2, "B": 2, "C": 2}


def test_each_candidate_gets_its_own_seconds() -> None:
    script = Script([0, 1, 10, 30, 100, 103, 200, 240])
    functions = {name: script.function(name) for name in "AB"}
    measured = measure_interleaved(functions, clock=script.clock, warmup=0, repeats=2)
    assert measured["A"].seconds == (1, 3)
    assert measured["B"].seconds == (20, 40)


def test_the_result_is_freed_after_the_clock_was_read() -> None:
    script = Script([0.0, 1.0])

    class Result:
        def __del__(self) -> None:
            script.events.append("freed")

    time_once(Result, clock=script.clock)
    assert script.events == ["clock", "clock", "freed"]


def test_median_quartiles_and_minimum() -> None:
    measurement = Measurement((5.0, 1.0, 2.0, 4.0, 100.0))
    assert measurement.median == 4.0
    assert measurement.minimum == 1.0
    assert measurement.quartiles == (2.0, 5.0)
    assert measurement.interquartile_range == 3.0
    assert measurement.runs == 5


def test_a_single_call_has_no_spread() -> None:
    measurement = Measurement((0.5,))
    assert (measurement.median, measurement.quartiles, measurement.interquartile_range) == (0.5, (0.5, 0.5), 0.0)


@pytest.mark.parametrize(("warmup", "repeats"), [(-1, 3), (0, 0)])
def test_counts_of_calls_are_checked(warmup: int, repeats: int) -> None:
    with pytest.raises(ValueError, match=f"warmup={warmup} and repeats={repeats}"):
        measure(lambda: None, warmup=warmup, repeats=repeats)


def test_break_even() -> None:
    assert break_even_calls(10.0, 0.3, 0.1) == pytest.approx(50)
    assert break_even_calls(0.0, 2.0, 1.0) == 0.0
    assert break_even_calls(10.0, 0.1, 0.1) == math.inf
    assert break_even_calls(10.0, 0.1, 0.2) == math.inf


seconds = st.floats(min_value=1e-6, max_value=1e3)


@given(seconds, seconds, seconds)
def test_total_times_meet_at_break_even(compile_seconds: float, eager: float, compiled: float) -> None:
    calls = break_even_calls(compile_seconds, eager, compiled)
    if eager <= compiled:
        assert calls == math.inf
    else:
        assert calls * (eager - compiled) == pytest.approx(compile_seconds)


@pytest.mark.parametrize("arguments", [(-1.0, 1.0, 1.0), (1.0, math.nan, 1.0), (1.0, 1.0, -0.5)])
def test_break_even_refuses_what_is_no_time(arguments: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="must be a number of seconds"):
        break_even_calls(*arguments)

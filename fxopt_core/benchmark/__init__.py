"""Measuring honestly what compiling costs and what it brings."""

from fxopt_core.benchmark.measuring import Measurement, break_even_calls, measure, measure_interleaved, time_once
from fxopt_core.benchmark.report import BenchmarkReport, Candidate
from fxopt_core.benchmark.running import benchmark

__all__ = [
    "BenchmarkReport",
    "Candidate",
    "Measurement",
    "benchmark",
    "break_even_calls",
    "measure",
    "measure_interleaved",
    "time_once",
]

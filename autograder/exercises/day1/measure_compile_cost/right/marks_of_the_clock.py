"""Reads the clock once between two calls; NumPy has the quartiles, and fractions the quotient."""

import math
from fractions import Fraction

import numpy


def measure(function, clock, synchronize, warmup, repeats):
    marks = []

    def mark():
        synchronize()
        marks.append(clock())

    mark()
    for _ in range(1 + warmup + repeats):
        function()
        mark()
    spans = numpy.diff(marks)
    low, middle, high = numpy.percentile(spans[-repeats:], [25, 50, 75])
    return {"compile_seconds": spans[0], "median_seconds": middle, "spread_seconds": high - low}


def break_even_calls(compile_seconds, eager_seconds, compiled_seconds):
    saved = Fraction(eager_seconds) - Fraction(compiled_seconds)
    return float(Fraction(compile_seconds) / saved) if saved > 0 else math.inf

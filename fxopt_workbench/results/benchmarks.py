"""What a benchmark found, as a table, as JSON and as a figure with its text twin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fxopt_core.benchmark.report import BenchmarkReport, Candidate
from fxopt_workbench.tables import NONE, Table, document_of, format_bytes, format_calls, format_seconds, tables_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNCLEAR = "unclear"
"""What is said of a difference that is smaller than the spread."""

_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P")
# Okabe and Ito's palette for colour-blind readers, https://jfly.uni-koeln.de/color/
_COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")


def settings(report: BenchmarkReport) -> str:
    """Where and how it was measured, in one sentence."""
    cache = "empty" if report.fresh_cache else "as it was, perhaps warm"
    threads = f"{report.threads} thread" + ("s" if report.threads != 1 else "")
    return (
        f"{report.device} ({report.device_name}), torch {report.torch_version}, {threads}; {report.warmup} warm-up "
        f"and {report.repeats} timed calls each, in turn "
        f"(spread: interquartile range); compile cache on disk: {cache}"
    )


def against_first(report: BenchmarkReport, candidate: Candidate) -> str:
    """How fast a candidate is beside the first, in words; `unclear` where their middle halves overlap."""
    first = report.candidates[0]
    if candidate is first:
        return "baseline"
    low, high = candidate.measurement.quartiles
    first_low, first_high = first.measurement.quartiles
    if low <= first_high and first_low <= high:
        return UNCLEAR
    if candidate.measurement.median < first.measurement.median:
        return f"{first.measurement.median / candidate.measurement.median:.2f}× faster"
    return f"{candidate.measurement.median / first.measurement.median:.2f}× slower"


@tables_of.register
def _of_benchmark(report: BenchmarkReport) -> Sequence[Table]:
    headings = (
        *("candidate", "against the baseline", "first call", "median", "spread", "minimum", "pays after calls"),
        *("peak memory", "graphs (operations)", "largest error"),
    )
    rows = [
        (
            candidate.name,
            against_first(report, candidate),
            format_seconds(candidate.first_call_seconds),
            format_seconds(candidate.measurement.median),
            format_seconds(candidate.measurement.interquartile_range),
            format_seconds(candidate.measurement.minimum),
            pays_after(report, candidate),
            format_bytes(candidate.peak_bytes),
            f"{candidate.graphs} ({candidate.operations})",
            NONE if candidate.largest_error is None else f"{candidate.largest_error:.2g}",
        )
        for candidate in report.candidates
    ]
    return (Table("", headings, rows, (settings(report), *report.notes)),)


@document_of.register
def _json_of_benchmark(report: BenchmarkReport) -> dict[str, Any]:
    """In seconds and bytes; `"never"` for a break-even that does not come."""
    names = ("device", "device_name", "torch_version", "threads", "warmup", "repeats", "fresh_cache", "notes")
    document = {name: getattr(report, name) for name in names}
    return {**document, "candidates": [_json_of_candidate(candidate) for candidate in report.candidates]}


def _json_of_candidate(candidate: Candidate) -> dict[str, Any]:
    measurement = candidate.measurement
    error = candidate.largest_error
    pays = candidate.break_even_calls
    return {
        "name": candidate.name,
        "first_call_seconds": candidate.first_call_seconds,
        "median_seconds": measurement.median,
        "quartiles_seconds": measurement.quartiles,
        "minimum_seconds": measurement.minimum,
        "runs": measurement.runs,
        "seconds": measurement.seconds,
        "peak_bytes": candidate.peak_bytes,
        "graphs": candidate.graphs,
        "operations": candidate.operations,
        "largest_error": error if error is None or math.isfinite(error) else "infinite",
        "break_even_calls": pays if pays is None or math.isfinite(pays) else "never",
    }


def pays_after(report: BenchmarkReport, candidate: Candidate) -> str:
    """After how many calls compiling has paid, in words; no claim where the speed is unclear."""
    if candidate.break_even_calls is not None and against_first(report, candidate) == UNCLEAR:
        return UNCLEAR
    return format_calls(candidate.break_even_calls)


def plot(report: BenchmarkReport) -> Figure:
    """Total time over the number of calls: where a compiled line crosses the first one, compiling has paid.

    Lines differ in dash and marker as well as in colour. `alt_text` says the same in words.
    """
    # pyplot, so that a notebook shows the figure; closed, so that it shows it once.
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
    calls = _plotted_calls(report)
    for place, candidate in enumerate(report.candidates):
        total = [_total_seconds(candidate, number) for number in calls]
        axes.plot(
            calls,
            total,
            label=f"{candidate.name} ({against_first(report, candidate)})",
            linestyle=_LINES[place % len(_LINES)],
            marker=_MARKERS[place % len(_MARKERS)],
            markevery=4,
            color=_COLOURS[place % len(_COLOURS)],
        )
        number = candidate.break_even_calls
        if number is not None and math.isfinite(number) and against_first(report, candidate) != UNCLEAR:
            point = (number, _total_seconds(candidate, number))
            axes.plot(*point, marker="*", markersize=16, color=_COLOURS[place % len(_COLOURS)], linestyle="")
            axes.annotate(
                f"{candidate.name} pays\nafter {format_calls(number)} calls",
                point,
                textcoords="offset points",
                xytext=(24, -45 - 32 * place),
                arrowprops={"arrowstyle": "-"},
            )
    axes.set(xscale="log", yscale="log", xlabel="calls", ylabel="total time, compilation included (s)")
    axes.set_title(f"Does compiling pay? ({report.device_name}, {report.repeats} timed calls each)")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    pyplot.close(figure)
    return figure


def alt_text(report: BenchmarkReport) -> str:
    """The figure of `plot` in words."""
    sentences = ["Total time over the number of calls, one line a candidate, both axes logarithmic."]
    for candidate in report.candidates:
        text = f"{candidate.name}: {format_seconds(candidate.measurement.median)} a call"
        if candidate.break_even_calls is not None:
            speed = against_first(report, candidate)
            text += f", first call {format_seconds(candidate.first_call_seconds)}, "
            if speed == UNCLEAR:
                text += "and unclear whether it is faster, so also whether it pays"
            elif math.isfinite(candidate.break_even_calls):
                text += f"{speed}; pays after {pays_after(report, candidate)} calls"
            else:
                text += f"{speed}; never pays"
        sentences.append(f"{text}.")
    return " ".join(sentences)


def _plotted_calls(report: BenchmarkReport) -> list[float]:
    finite = [c.break_even_calls for c in report.candidates if c.break_even_calls and math.isfinite(c.break_even_calls)]
    decades = math.ceil(math.log10(max([*finite, 10.0]))) + 1
    return [10 ** (step / 8) for step in range(8 * decades + 1)]


def _total_seconds(candidate: Candidate, calls: float) -> float:
    once = 0.0 if candidate.break_even_calls is None else candidate.first_call_seconds
    return once + calls * candidate.measurement.median

"""What a benchmark found: as a table, as text, as JSON and as a figure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fxopt_core.benchmark.measuring import Measurement
from fxopt_workbench.tables import NONE, Sheet, Shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNCLEAR = "unclear"
"""What is said of a difference that is smaller than the spread."""

_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P")
# Okabe and Ito's palette for colour-blind readers, https://jfly.uni-koeln.de/color/
_COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")


@dataclass(frozen=True)
class Candidate:
    """What was measured of one candidate.

    Attributes:
        name: its name.
        first_call_seconds: its first call after Dynamo was reset: compilation and one execution.
        measurement: its calls in the steady state.
        peak_bytes: most bytes of tensors that a call holds at a time; `None` where nothing measures them.
        graphs: graphs that Dynamo captured in the first call (0: nothing was compiled).
        operations: calls of functions, methods and modules in these graphs.
        largest_error: largest absolute difference from the first candidate's output; `None` without tensors.
        break_even_calls: after how many calls compiling has paid; infinite for never, `None` for the first.
    """

    name: str
    first_call_seconds: float
    measurement: Measurement
    peak_bytes: int | None
    graphs: int
    operations: int
    largest_error: float | None
    break_even_calls: float | None


@dataclass(frozen=True)
class BenchmarkReport(Shown):
    """Measurements of several candidates, the first being what the others are compared with.

    Attributes:
        candidates: in the order in which they ran.
        device: such as `cpu`.
        device_name: what the device calls itself.
        torch_version: the version of PyTorch.
        threads: threads that PyTorch used on the CPU.
        warmup: calls a candidate that were not timed.
        repeats: calls a candidate that were.
        fresh_cache: whether Inductor's cache on disk was empty for each first call.
        notes: what makes these figures less certain.
    """

    candidates: tuple[Candidate, ...]
    device: str
    device_name: str
    torch_version: str
    threads: int
    warmup: int
    repeats: int
    fresh_cache: bool
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Candidate:
        """The candidate called `name`.

        Raises:
            KeyError: there is none; the message lists the names.
        """
        for candidate in self.candidates:
            if candidate.name == name:
                return candidate
        raise KeyError(f"no candidate {name!r}; there are {', '.join(c.name for c in self.candidates)}")

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def against_first(self, candidate: Candidate) -> str:
        """How fast a candidate is beside the first, in words; `unclear` where their middle halves overlap."""
        first = self.candidates[0]
        if candidate is first:
            return "the measure"
        low, high = candidate.measurement.quartiles
        first_low, first_high = first.measurement.quartiles
        if low <= first_high and first_low <= high:
            return UNCLEAR
        if candidate.measurement.median < first.measurement.median:
            return f"{first.measurement.median / candidate.measurement.median:.2f}× faster"
        return f"{candidate.measurement.median / first.measurement.median:.2f}× slower"

    def pays_after(self, candidate: Candidate) -> str:
        """After how many calls compiling has paid, in words; no claim where the speed is unclear."""
        if candidate.break_even_calls is not None and self.against_first(candidate) == UNCLEAR:
            return UNCLEAR
        return format_calls(candidate.break_even_calls)

    def settings(self) -> str:
        """Where and how it was measured, in one sentence."""
        cache = "empty" if self.fresh_cache else "as it was, perhaps warm"
        threads = f"{self.threads} thread" + ("s" if self.threads != 1 else "")
        return (
            f"{self.device} ({self.device_name}), torch {self.torch_version}, {threads}; {self.warmup} warm-up "
            f"and {self.repeats} timed calls each, in turn "
            f"(spread: interquartile range); compile cache on disk: {cache}"
        )

    def __str__(self) -> str:
        (sheet,) = self.sheets()
        return sheet.text(width=120)

    def sheets(self) -> tuple[Sheet, ...]:
        """One row a candidate."""
        headings = (
            *("candidate", "against the first", "first call", "median", "spread", "minimum", "pays after calls"),
            *("peak memory", "graphs (operations)", "largest error"),
        )
        rows = [
            (
                candidate.name,
                self.against_first(candidate),
                format_seconds(candidate.first_call_seconds),
                format_seconds(candidate.measurement.median),
                format_seconds(candidate.measurement.interquartile_range),
                format_seconds(candidate.measurement.minimum),
                self.pays_after(candidate),
                format_bytes(candidate.peak_bytes),
                f"{candidate.graphs} ({candidate.operations})",
                NONE if candidate.largest_error is None else f"{candidate.largest_error:.2g}",
            )
            for candidate in self.candidates
        ]
        return (Sheet("", headings, rows, (self.settings(), *self.notes)),)

    def to_json(self) -> str:
        """Everything as strict JSON; seconds and bytes; `"never"` for a break-even that does not come."""
        return json.dumps(
            {
                "device": self.device,
                "device_name": self.device_name,
                "torch_version": self.torch_version,
                "threads": self.threads,
                "warmup": self.warmup,
                "repeats": self.repeats,
                "fresh_cache": self.fresh_cache,
                "notes": self.notes,
                "candidates": [_candidate_document(candidate) for candidate in self.candidates],
            },
            allow_nan=False,
            indent=2,
        )

    def plot(self) -> Figure:
        """Total time over the number of calls: where a compiled line crosses the first one, compiling has paid.

        Lines differ in dash and marker as well as in colour. `alt_text()` says the same in words.
        """
        # pyplot, so that a notebook shows the figure; closed, so that it shows it once.
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
        calls = self._plotted_calls()
        for place, candidate in enumerate(self.candidates):
            total = [self._total_seconds(candidate, number) for number in calls]
            axes.plot(
                calls,
                total,
                label=f"{candidate.name} ({self.against_first(candidate)})",
                linestyle=_LINES[place % len(_LINES)],
                marker=_MARKERS[place % len(_MARKERS)],
                markevery=4,
                color=_COLOURS[place % len(_COLOURS)],
            )
            number = candidate.break_even_calls
            if number is not None and math.isfinite(number) and self.against_first(candidate) != UNCLEAR:
                point = (number, self._total_seconds(candidate, number))
                axes.plot(*point, marker="*", markersize=16, color=_COLOURS[place % len(_COLOURS)], linestyle="")
                axes.annotate(
                    f"{candidate.name} pays\nafter {format_calls(number)} calls",
                    point,
                    textcoords="offset points",
                    xytext=(24, -45 - 32 * place),
                    arrowprops={"arrowstyle": "-"},
                )
        axes.set(xscale="log", yscale="log", xlabel="calls", ylabel="total time, compilation included (s)")
        axes.set_title(f"Does compiling pay? ({self.device_name}, {self.repeats} timed calls each)")
        axes.grid(visible=True, which="both", alpha=0.3)
        axes.legend()
        pyplot.close(figure)
        return figure

    def alt_text(self) -> str:
        """The figure of `plot()` in words."""
        sentences = ["Total time over the number of calls, one line a candidate, both axes logarithmic."]
        for candidate in self.candidates:
            text = f"{candidate.name}: {format_seconds(candidate.measurement.median)} a call"
            if candidate.break_even_calls is not None:
                text += (
                    f", first call {format_seconds(candidate.first_call_seconds)}, {self.against_first(candidate)}; "
                )
                pays = self.pays_after(candidate)
                if pays == UNCLEAR:
                    text += "whether it pays is unclear"
                else:
                    text += f"pays after {pays} calls" if math.isfinite(candidate.break_even_calls) else "never pays"
            sentences.append(f"{text}.")
        return " ".join(sentences)

    def _plotted_calls(self) -> list[float]:
        finite = [
            c.break_even_calls for c in self.candidates if c.break_even_calls and math.isfinite(c.break_even_calls)
        ]
        decades = math.ceil(math.log10(max([*finite, 10.0]))) + 1
        return [10 ** (step / 8) for step in range(8 * decades + 1)]

    def _total_seconds(self, candidate: Candidate, calls: float) -> float:
        once = 0.0 if candidate.break_even_calls is None else candidate.first_call_seconds
        return once + calls * candidate.measurement.median


def _candidate_document(candidate: Candidate) -> dict[str, Any]:
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


def format_seconds(seconds: float) -> str:
    """Seconds with three significant digits and a fitting unit, such as `1.25 ms`."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def format_bytes(number: int | None) -> str:
    """Bytes with three significant digits and a binary unit, such as `4.5 MiB`; `–` for `None`."""
    if number is None:
        return "–"
    size = float(number)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.3g} GiB" if size < 1000 else f"{size:.0f} GiB"


def format_calls(calls: float | None) -> str:
    """A number of calls, rounded up; `never` when infinite, `–` for `None`."""
    if calls is None:
        return "–"
    return "never" if math.isinf(calls) else f"{math.ceil(calls):,}".replace(",", " ")

"""Estimates on several devices: a roofline plot, and a table that compares them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fxopt_workbench.files import replacing
from fxopt_workbench.hardware.roofline import COMPUTE, MEMORY, Estimate, NodeEstimate
from fxopt_workbench.tables import NONE, Table, format_bytes, format_count, format_seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "D", "v", "P")


def comparison(estimates: Sequence[Estimate]) -> Table:
    """A row for each device: its roof, the time at best, and how many nodes lie under its slope and its flat part."""
    first = estimates[0]
    needed = first.analysis.held_bytes + first.analysis.peak.live_bytes
    rows = []
    for one in estimates:
        machine, bounds = one.hardware, Counter(node.bound for node in one.nodes)
        roofs = (
            f"{name} {format_count(rate, 'FLOP/s')} from {format_count(rate / machine.bandwidth)} FLOPs/byte"
            for name, rate in _rates(one).items()
        )
        speed = f"{first.seconds / one.seconds:.3g}×" if one.seconds > 0 else NONE
        share = f" ({one.share(COMPUTE):.0%})" if one.seconds > 0 else ""
        fits = "yes" if needed <= machine.memory else "no"
        figures = (", ".join(roofs), format_count(machine.bandwidth, "B/s"), format_seconds(one.seconds), speed)
        rows.append((machine.name, *figures, str(bounds[MEMORY]), f"{bounds[COMPUTE]}{share}", fits))
    headings = ("hardware", "roof", "bandwidth", "time", f"{first.hardware.name} = 1", "memory-bound", "compute-bound")
    sources = (f"{one.hardware.name}: {one.hardware.source}." for one in estimates)
    note = f"bound: nodes (part of the time). fits: {format_bytes(needed)} are needed at once."
    unknown = first.analysis.total.uncounted
    why = (f"No time, since nobody knows the FLOPs of {', '.join(unknown)}.",) if unknown else ()
    return Table("Time at best", (*headings, "fits"), rows, (note, *why, *sources), ("roof", "fits"))


def plot(estimates: Sequence[Estimate]) -> Figure:
    """FLOP/s over FLOPs per byte, both logarithmic: the roof of each device and the nodes under it.

    A node stands at the FLOP/s that the estimate allows it, larger the longer it takes. Nodes without FLOPs, and those
    whose FLOPs are not counted, have no place on such axes. Devices differ in line and marker as well as in colour.
    `comparison` says the same in words.

    Raises:
        ValueError: no node has FLOPs that are counted.
    """
    # pyplot, so that a notebook shows the figure; closed, so that it shows it once.
    from matplotlib import pyplot

    with pyplot.style.context("tableau-colorblind10"):
        figure, axes = pyplot.subplots(figsize=(8, 5), layout="constrained")
        ridges = [rate / one.hardware.bandwidth for one in estimates for rate in _rates(one).values()]
        placed = [node.node.cost.intensity for one in estimates for node in _placed(one)]
        if not ridges:
            raise ValueError("no node has FLOPs that are counted, so there is no roofline to draw.")
        low, high = min([*placed, *ridges]) / 4, max([*placed, *ridges]) * 4
        for place, one in enumerate(estimates):
            colour, style = f"C{place}", _LINES[place % len(_LINES)]
            for name, rate in _rates(one).items():
                bandwidth = one.hardware.bandwidth
                axes.plot(
                    [low, rate / bandwidth, high],
                    [low * bandwidth, rate, rate],
                    style,
                    color=colour,
                    label=f"{one.hardware.name}, {name}: {format_seconds(one.seconds)}",
                )
            nodes = _placed(one)
            whole = one.seconds if one.seconds > 0 else sum(node.seconds for node in nodes)
            axes.scatter(
                [node.node.cost.intensity for node in nodes],
                [node.node.cost.flops / node.seconds for node in nodes],
                [10 + 400 * node.seconds / whole for node in nodes],
                marker=_MARKERS[place % len(_MARKERS)],
                color=colour,
                alpha=0.5,
            )
        axes.set(xscale="log", yscale="log", xlabel="FLOPs per byte moved", ylabel="FLOP/s at best")
        axes.set_title("Roofline: each mark a node, larger the longer it takes")
        axes.grid(visible=True, which="both", alpha=0.3)
        axes.legend()
        pyplot.close(figure)
    return figure


def save_plot(estimates: Sequence[Estimate], path: Path) -> None:
    """Write the plot (`.svg`), or the comparison that says the same in words (`.txt`)."""
    with replacing(path) as temporary:
        if path.suffix == ".txt":
            temporary.write_text(comparison(estimates).text() + "\n")
        else:
            plot(estimates).savefig(temporary, format="svg", metadata={"Date": None})


def _placed(estimate: Estimate) -> list[NodeEstimate]:
    return [node for node in estimate.nodes if node.node.cost.flops and not node.node.cost.uncounted]


def _rates(estimate: Estimate) -> dict[str, float]:
    """The peak rates that the nodes of a graph meet on a device, by the dtype of their FLOPs."""
    dtypes = {str(node.node.dtype).removeprefix("torch.") for node in estimate.nodes if node.node.dtype is not None}
    found = {}
    for dtype in sorted(dtypes):
        rounded = estimate.tf32 and dtype == "float32" and "tf32" in estimate.hardware.rates
        found["tf32" if rounded else dtype] = estimate.hardware.rate(dtype, tf32=estimate.tf32)
    return found

"""What the comparison with the peers must show, and whether it does: as tables and as JSON."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from fxopt_core.benchmark.measuring import Measurement
from fxopt_workbench.bench.passes.comparing import Row
from fxopt_workbench.tables import NONE, Table, format_seconds


class Demand(NamedTuple):
    """How fast something must be beside a peer.

    Attributes:
        name: what is timed.
        ratio: how many times as long the peer must take, at least.
        peer: the peer that is meant; `None` for each, and so for the best of them.
        nodes: the size of graph that is meant; `None` for all.
    """

    name: str
    ratio: float
    peer: str | None = None
    nodes: int | None = None


DEMANDS = (
    Demand("common_subexpressions", 5, nodes=50_000),
    Demand("constant_folding", 10, nodes=50_000),
    Demand("dead_code", 1),
    Demand("one_pattern_rewrite", 50, "replace_pattern", 50_000),
    Demand("one_pattern_rewrite", 1, "Inductor's PatternMatcherPass", 50_000),
    Demand("dense_pattern_rewrite", 1.5, nodes=50_000),
    # At most twice as long as the peer; 1 is the goal.
    Demand("inference_preset", 0.5),
)

GROWTH_SIZES = (10_000, 50_000)
GROWTH_LIMIT = 6.0
"""From the first to the second size the time may grow this much at most; linear is 5."""


def demand_on(row: Row) -> Demand | None:
    """The demand that a row has to meet, if any."""
    for demand in DEMANDS:
        if demand.name == row.name and demand.peer in (None, row.peer) and demand.nodes in (None, row.nodes):
            return demand
    return None


def meets(row: Row) -> bool | None:
    """Whether a row meets its demand: fast enough, and it took out at least what the peer took out.

    `None` if nothing is demanded of it.
    """
    demand = demand_on(row)
    if demand is None or row.ratio is None or row.peer_removed is None:
        return None
    return row.ratio >= demand.ratio and row.removed >= row.peer_removed


class Growth(NamedTuple):
    """How much longer a larger graph takes.

    Attributes:
        name: what was timed.
        collector: state of the garbage collector.
        sizes: nodes of the smaller and the larger graph.
        factor: seconds for the larger one over seconds for the smaller one.
    """

    name: str
    collector: str
    sizes: tuple[int, int]
    factor: float

    @property
    def meets(self) -> bool | None:
        """Whether the growth is small enough; `None` for other sizes than those of the demand."""
        return self.factor <= GROWTH_LIMIT if self.sizes == GROWTH_SIZES else None


def growths(rows: Sequence[Row]) -> list[Growth]:
    """Growth from the second largest to the largest graph, for each thing timed on both."""
    medians: dict[tuple[str, str], dict[int, float]] = {}
    for row in rows:
        medians.setdefault((row.name, row.collector), {})[row.nodes] = row.ours.median
    found = []
    for (name, collector), by_size in medians.items():
        sizes = sorted(by_size)[-2:]
        if len(sizes) == 2:
            found.append(Growth(name, collector, (sizes[0], sizes[1]), by_size[sizes[1]] / by_size[sizes[0]]))
    return found


def document(rows: Sequence[Row]) -> dict[str, Any]:
    """Everything as a JSON object: where it was measured, the rows, the growth."""
    return {
        "torch": torch.__version__,
        "python": platform.python_version(),
        "rows": [{**row.document(), "met": meets(row)} for row in rows],
        "growth": [{**growth._asdict(), "met": growth.meets} for growth in growths(rows)],
    }


def comparison_table(rows: Sequence[Row]) -> Table:
    """A row for each pass, size, state of the collector and peer."""
    note = (
        f"torch {torch.__version__}, Python {platform.python_version()}; medians of {rows[0].ours.runs} runs ± "
        "interquartile range in CPU time, in turn, on fresh copies of one graph. removed: ATen calls taken out. "
        "ratio: how many times as long the peer takes; with recompile: the same if ours generates code too, "
        "where the peer cannot leave it out. A demand is met when the ratio is large enough and ours took out "
        "no less. constant_folding is timed with dead_code after it, since the peer takes dead nodes out too."
    )
    cells = [
        (
            row.name,
            str(row.nodes),
            row.collector,
            _seconds(row.ours),
            str(row.removed),
            row.peer or NONE,
            _seconds(row.theirs),
            NONE if row.peer_removed is None else str(row.peer_removed),
            _times(row.ratio),
            _times(row.recompiled_ratio),
            NONE if (demand := demand_on(row)) is None else f"≥ {demand.ratio:g}×",
            _word(meets(row)),
        )
        for row in rows
    ]
    headings = (
        *("pass", "nodes", "collector", "seconds", "removed", "peer", "peer seconds", "peer removed"),
        *("ratio", "with recompile", "demand", "met"),
    )
    return Table("", headings, cells, (note,), words=("collector", "peer"))


def growth_table(found: Sequence[Growth]) -> Table:
    """A row for each pass and state of the collector."""
    cells = [
        (
            growth.name,
            growth.collector,
            f"{growth.sizes[0]} to {growth.sizes[1]}",
            _times(growth.factor),
            _times(growth.sizes[1] / growth.sizes[0]),
            NONE if growth.meets is None else f"≤ {GROWTH_LIMIT:g}×",
            _word(growth.meets),
        )
        for growth in found
    ]
    headings = ("pass", "collector", "nodes", "growth", "linear", "demand", "met")
    return Table("", headings, cells, words=("collector",))


def _seconds(measurement: Measurement | None) -> str:
    if measurement is None:
        return NONE
    return f"{format_seconds(measurement.median)} ± {format_seconds(measurement.interquartile_range)}"


def _times(factor: float | None) -> str:
    return NONE if factor is None else f"{factor:.3g}×"


def _word(met: bool | None) -> str:
    return NONE if met is None else "yes" if met else "NO"

"""What a graph costs, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fxopt_core.costs import AllocationRecord, Analysis
from fxopt_workbench.structure import structure_of
from fxopt_workbench.structure.groups import Group, grouped
from fxopt_workbench.tables import Table, format_bytes, format_count, tables_of

BY = ("node", "module", "operation", "stage")
"""How `fxopt analyze` groups nodes."""

HEADINGS = ("nodes", "parameters", "FLOPs", "read", "written", "FLOPs/byte")


def cells(group: Group, elements: Mapping[str, int]) -> tuple[str, ...]:
    """The figures of `HEADINGS` for some nodes.

    Args:
        group: the nodes.
        elements: `Analysis.parameter_elements`.
    """
    cost = group.cost
    return (
        str(len(group.nodes)),
        format_count(group.parameters(elements)),
        format_count(cost.flops) + ("+?" if cost.uncounted else ""),
        format_bytes(cost.bytes_read),
        format_bytes(cost.bytes_written),
        format_count(cost.intensity),
    )


def groups(analysis: Analysis, by: str) -> list[Group]:
    """The nodes of a graph by one of `BY`.

    Raises:
        ValueError: `by` is another word.
    """
    return structure_of(analysis).stages() if by == "stage" else grouped(analysis, by)


def costly(analysis: Analysis, by: str) -> list[Group]:
    """Those of `groups` that cost something, and last the whole."""
    found = [group for group in groups(analysis, by) if group.cost.bytes or group.cost.uncounted]
    return [*found, Group("all", analysis.nodes)]


def costs_table(analysis: Analysis, by: str = "operation") -> Table:
    """A row for each group of nodes that costs something."""
    rows = [(group.name, *cells(group, analysis.parameter_elements)) for group in costly(analysis, by)]
    return Table("", (by, *HEADINGS), rows, notes(analysis))


def notes(analysis: Analysis) -> tuple[str, ...]:
    """What the figures mean, and what they leave out."""
    peak = analysis.peak
    at = f", at {peak.name} ({'.'.join(peak.module) or 'top'})" if peak.name else ""
    found = [
        f"{format_count(analysis.parameters)} parameters ({analysis.parameters}); a multiply-add counts as two FLOPs, "
        "and only matrix products, convolutions and attention count. Nodes that move nothing have no row.",
        f"Memory: {format_bytes(analysis.held_bytes)} held (parameters, buffers, inputs); at most "
        f"{format_bytes(peak.live_bytes)} of values at once{at}.",
    ]
    if analysis.total.uncounted:
        found.append(f"No formula, so FLOPs not counted: {', '.join(analysis.total.uncounted)}.")
    return tuple(found)


@tables_of.register
def _of_analysis(analysis: Analysis) -> Sequence[Table]:
    return [costs_table(analysis)]


@tables_of.register
def _of_allocations(record: AllocationRecord) -> Sequence[Table]:
    """Live bytes at each mark, at the peak and at the end."""
    live = record.live_bytes()
    moments = [*record.marks, ("peak", live.index(max(live))), ("end", record.events)]
    rows = [(label, str(event), format_bytes(live[event])) for label, event in moments]
    title = f"{len(record.blocks)} blocks of memory allocated in {record.events} events"
    return [Table(title, ("moment", "events before", "live"), rows)]

"""What a capture gave, as tables: the graphs, and what a reader must know to trust them."""

from __future__ import annotations

from collections.abc import Sequence

from fxopt_core.capture import Agreement, Captured
from fxopt_workbench.tables import Table, tables_of

FEW = 8
"""Guards, and kinds of operation, that a notebook shows."""


@tables_of.register
def _of_capture(captured: Captured) -> Sequence[Table]:
    """`fxopt_workbench.pictures.draw` and `fxopt_workbench.explorer.explore` show the nodes."""
    graphs = [
        (str(number), one.role, str(len(one.inputs)), str(counts.total()), _listed(counts.most_common()))
        for number, (one, counts) in enumerate(
            zip(captured.partitions, captured.operation_counts_by_partition(), strict=True), start=1
        )
    ]
    breaks = [(one.location, one.source, one.reason, str(one.times)) for one in captured.graph_breaks]
    sizes = [
        (one.name, *("any" if end is None else str(end) for end in (one.minimum, one.maximum)), ", ".join(one.places))
        for one in captured.symbols
    ]
    tried = [(one.strategy, ", ".join(one.adaptations), one.failure or "agrees") for one in captured.attempts]
    compared = [
        (one.on, "refused" if one.refusal else "agrees" if one.agrees else "DIFFERS", _difference(one), one.refusal)
        for one in captured.agreements
    ]
    guards = [(one.expression, one.source) for one in captured.guards[:FEW]]
    first = f" (the first {FEW} of {len(captured.guards)})" if len(captured.guards) > FEW else ""
    found = (
        Table("Graph breaks", ("where", "line", "reason", "times"), breaks, words=("line", "reason")),
        Table("Sizes that may vary", ("size", "from", "to", "where"), sizes, words=("where",)),
        Table("Tried", ("method", "adapted, on a copy", "outcome"), tried, words=("adapted, on a copy", "outcome")),
        Table(
            "Compared with the model",
            ("inputs", "outcome", "largest difference", "what it said"),
            compared,
            words=("outcome", "what it said"),
        ),
        Table(f"Guards{first}", ("condition", "for the sake of"), guards, words=("for the sake of",)),
    )
    headings = ("graph", "role", "inputs", "operations", "most frequent")
    title = f"Captured with {captured.method} at the level of {captured.level}"
    caveats = [Table("What the graphs do not say", notes=captured.caveats)] if captured.caveats else []
    return [
        Table(title, headings, graphs, words=("role", "most frequent")),
        *(table for table in found if table.rows),
        *caveats,
    ]


def _listed(counts: list[tuple[str, int]]) -> str:
    more = len(counts) - FEW
    return ", ".join(f"{name} ×{count}" for name, count in counts[:FEW]) + (f" and {more} more" if more > 0 else "")


def _difference(agreement: Agreement) -> str:
    return "" if agreement.refusal else f"{agreement.difference:.3g}"

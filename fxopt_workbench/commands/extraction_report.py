"""What `fxopt extract` prints: tables for people, one object for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from fxopt_core.capture import Captured, CapturedGraph
from fxopt_workbench.commands.method_comparison import METHODS, MODELS, Outcome, counted
from fxopt_workbench.pictures.nodes import captured_states, describe
from fxopt_workbench.tables import Table
from fxopt_workbench.torchscript.script_graph import ScriptGraph

SHORT = 40
"""Operations up to which a graph is printed node by node without being asked."""

FEW = 8
"""Guards printed without being asked."""


def show(captured: Captured, description: str, written: Sequence[Path], console: Console, *, show_all: bool) -> None:
    """Print graphs, operation counts, graph breaks, guards and caveats."""
    console.print(description)
    console.print(
        f"Captured with {captured.method} at the level of {captured.level}: {counted(captured.partitions, 'graph')}, "
        f"{counted(captured.operation_counts().total(), 'operation')}, "
        f"{counted(captured.graph_breaks, 'graph break')}.\n"
    )
    for number, (partition, counts) in enumerate(
        zip(captured.partitions, captured.operation_counts_by_partition(), strict=True), start=1
    ):
        _show_partition(number, partition, counts, console, show_all=show_all)
    console.print(_counts_table(captured))
    if captured.graph_breaks:
        console.print("\nGraph breaks")
        for graph_break in captured.graph_breaks:
            times = f" ({graph_break.times} times)" if graph_break.times > 1 else ""
            console.print(f"  {graph_break.location}{times}: {graph_break.source}", soft_wrap=True)
            for line in graph_break.reason.splitlines():
                console.print(f"    {line}", soft_wrap=True)
    if captured.guards:
        shown = captured.guards if show_all else captured.guards[:FEW]
        more = "" if len(shown) == len(captured.guards) else f" (the first {len(shown)}; --all prints every one)"
        console.print(f"\n{counted(captured.guards, 'guard')}{more}")
        for guard in shown:
            console.print(f"  {guard.expression}{f'  # {guard.source}' if guard.source else ''}", soft_wrap=True)
    _show_trust(captured, console)
    if captured.caveats:
        console.print("\nWhat the graphs do not say")
        for caveat in captured.caveats:
            console.print(f"  {caveat}", soft_wrap=True)
    if written:
        console.print(f"\nWritten: {', '.join(map(str, written))}", soft_wrap=True)


def _show_trust(captured: Captured, console: Console) -> None:
    """Print what is open, what was tried and adapted, and on what the graphs were compared with the model."""
    sections = {
        "Sizes that may vary": [
            f"{one.name}: {' to '.join('any' if end is None else str(end) for end in (one.minimum, one.maximum))}, "
            f"{', '.join(one.places)}"
            for one in captured.symbols
        ],
        "Tried": [
            ", ".join([one.strategy, *one.adaptations]) + f": {one.failure or 'agrees'}" for one in captured.attempts
        ],
        "Adapted, on a copy": captured.adaptations,
        "Compared with the model": captured.agreements,
    }
    for title, lines in sections.items():
        if lines:
            console.print(f"\n{title}")
            for line in lines:
                console.print(f"  {line}", soft_wrap=True)


def _show_partition(
    number: int, partition: CapturedGraph, counts: Counter[str], console: Console, *, show_all: bool
) -> None:
    inputs, operations = counted(partition.inputs, "input"), counted(counts.total(), "operation")
    title = f"Graph {number} ({partition.role}): {inputs}, {operations}"
    if counts.total() > SHORT and not show_all:
        most = ", ".join(f"{name} {count}" for name, count in counts.most_common(5))
        console.print(f"{title}\n  most frequent: {most}\n  --all prints every node\n")
        return
    if isinstance(partition, ScriptGraph):
        console.print(f"{title}\n{partition.script.inlined_graph}", soft_wrap=True)
        return
    sources = {one.name: one.source for one in partition.inputs}
    headings = ("node", "operation", "reads or stands for", "shape", "dtype")
    rows = [
        (node.name, node.operation, sources.get(node.name, node.arguments), node.shape, node.dtype)
        for node in describe(partition.graph_module.graph, captured_states(partition))
    ]
    console.print(Table(title, headings, rows, words=headings))
    console.print()


def _counts_table(captured: Captured) -> Table:
    by_partition = captured.operation_counts_by_partition()
    several = by_partition if len(by_partition) > 1 else ()
    headings = ("operation", *(f"graph {number}" for number in range(1, len(several) + 1)), "all")
    rows = [
        (name, *(str(counts[name]) for counts in several), str(count))
        for name, count in sorted(captured.operation_counts().items(), key=lambda item: (-item[1], item[0]))
    ]
    return Table("Operations", headings, rows)


def document(captured: Captured, model: str, device: str, written: Sequence[Path]) -> dict[str, Any]:
    """The capture as plain data for JSON."""
    return {
        "model": model,
        "method": captured.method,
        "level": captured.level,
        "device": device,
        "operation_counts": dict(captured.operation_counts()),
        "graphs": [
            {
                "role": partition.role,
                "inputs": [asdict(one) for one in partition.inputs],
                "operation_counts": dict(counts),
                "nodes": _nodes(partition),
            }
            for partition, counts in zip(captured.partitions, captured.operation_counts_by_partition(), strict=True)
        ],
        "graph_breaks": [asdict(graph_break) for graph_break in captured.graph_breaks],
        "guards": [asdict(guard) for guard in captured.guards],
        "caveats": list(captured.caveats),
        "symbols": [asdict(one) for one in captured.symbols],
        "attempts": [asdict(one, dict_factory=_finite) for one in captured.attempts],
        "adaptations": list(captured.adaptations),
        "agreements": [asdict(one, dict_factory=_finite) for one in captured.agreements],
        "written": [str(path) for path in written],
    }


def _finite(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON has no infinity: a difference that has no number is null."""
    return {name: None if value == float("inf") else value for name, value in items}


def _nodes(partition: CapturedGraph) -> list[dict[str, Any]]:
    """The nodes of an FX graph; of a TorchScript graph none, since they are described by other words."""
    if isinstance(partition, ScriptGraph):
        return []
    return [asdict(node) for node in describe(partition.graph_module.graph, captured_states(partition))]


def show_comparison(outcomes: Sequence[Outcome], console: Console) -> None:
    """Print which method got which model, and below why not."""
    by_pair = {(outcome.model, outcome.method): outcome for outcome in outcomes}
    rows = [(model, *(by_pair[model, method].in_short() for method in METHODS)) for model in MODELS]
    console.print(Table("What each method captures", ("model", *METHODS), rows, words=tuple(METHODS)))
    console.print("\nWhy")
    for outcome in outcomes:
        if outcome.error is not None:
            console.print(f"  {outcome.model}, {outcome.method}: {outcome.error.failure}", soft_wrap=True)
        elif outcome.captured is not None:
            for graph_break in outcome.captured.graph_breaks:
                reason = graph_break.reason.splitlines()[0]
                console.print(
                    f"  {outcome.model}, {outcome.method}: graph break at {graph_break.location} "
                    f"({graph_break.source}): {reason}",
                    soft_wrap=True,
                )


def methods_document(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The comparison as plain data for JSON."""
    return {
        "model": "compare",
        "outcomes": [
            {
                "model": outcome.model,
                "method": outcome.method,
                "captured": outcome.captured is not None,
                "graphs": len(outcome.captured.partitions) if outcome.captured else 0,
                "operations": outcome.captured.operation_counts().total() if outcome.captured else 0,
                "graph_breaks": [asdict(one) for one in outcome.captured.graph_breaks] if outcome.captured else [],
                "failure": outcome.error.failure if outcome.error else None,
                "advice": outcome.error.advice if outcome.error else None,
            }
            for outcome in outcomes
        ],
    }

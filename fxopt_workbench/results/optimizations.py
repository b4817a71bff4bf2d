"""What an optimisation did and what it left alone, as tables, pictures and JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fxopt_core.costs import Cost
from fxopt_core.graphs.editor import Rewrite
from fxopt_core.graphs.names import OPERATIONS
from fxopt_core.optimizer import OptimizationReport, OptimizationResult
from fxopt_core.optimizer.report import OptimizedGraph
from fxopt_workbench.pictures import GraphPicture, draw
from fxopt_workbench.results.passes import row_of
from fxopt_workbench.results.source_lines import source_line
from fxopt_workbench.structure.diff import diff_graphs
from fxopt_workbench.tables import Table, document_of, tables_of

MOST_SHOWN = 20
"""How many rewrites the printed report shows one by one."""


def _how_verified(report: OptimizationReport) -> str:
    """In one sentence, how the rewrites were checked."""
    if report.equivalence is None:
        return "structure only (every node is defined before it is used, every target exists)"
    return f"structure, and comparison with the model: {report.equivalence}"


@tables_of.register
def _of_result(result: OptimizationResult) -> Sequence[Table]:
    return tables_of(result.report)


@tables_of.register
def _of_report(report: OptimizationReport) -> Sequence[Table]:
    operations = "operation" if report.nodes_before == 1 else "operations"
    opening = f"Captured by {report.method}; {report.nodes_before} {operations} became {report.nodes_after}."
    caveats = (f"Caveat: {caveat}" for caveat in report.caveats)
    engine = () if report.engine is None else tables_of(report.engine)
    verified = Table("", notes=(f"Verified: {_how_verified(report)}.", *caveats))
    return [Table(opening), *_details(report), verified, *engine]


def _details(report: OptimizationReport) -> Iterator[Table]:
    changed = [change for graph in report.graphs for change in _changes(graph)]
    unknown = _uncounted(report)
    marks = ["+?" if one else "" for one in (*unknown, any(change.uncounted for change in changed))]
    rows = []
    for name, both in report.before_and_after.items():
        figures = [f"{both[0]:,}", f"{both[1]:,}", f"{both[1] - both[0]:+,}"] if both else ["not known", "", ""]
        if both and name == "flops":
            figures = [figure + mark for figure, mark in zip(figures, marks, strict=True)]
        rows.append((name, *figures))
    names = ", ".join(dict.fromkeys(name for names in unknown for name in names))
    notes = (f"No formula, so FLOPs not counted: {names}.",) if names else ()
    yield Table("Before and after", ("", "before", "after", "change"), rows, notes)
    changes: dict[tuple[str, str], list[_Change]] = defaultdict(list)
    for rewrite, change in zip(report.rewrites, changed, strict=True):
        changes[rewrite.rule, str(rewrite.tolerance)].append(change)
    yield Table(
        f"Rewrites: {len(report.rewrites)}",
        ("rule", "times", "nodes", "FLOPs", "bytes", "exactness"),
        [(rule, str(len(made)), *_sums(made), exact) for (rule, exact), made in changes.items()],
        words=("exactness",),
    )
    shown = report.rewrites[:MOST_SHOWN]
    more = len(report.rewrites) - len(shown)
    yield Table(
        "One by one" + (f" (the first {len(shown)}; as_json() has {more} more)" if more else ""),
        ("rule", "before → after", "source"),
        [row_of(rewrite) for rewrite in shown],
        words=("before → after", "source"),
    )
    yield Table(
        f"Refusals: {len(report.refusals)}",
        ("pass", "reason", "nodes"),
        [(name, reason, _listed(nodes)) for (name, reason), nodes in _refused_nodes(report).items()],
        words=("reason", "nodes"),
    )
    if report.denied:
        yield Table("Taken back, since the comparison failed", ("rewrite",), [(key,) for key in report.denied])
    if report.failures:
        taken_out = [(failure.name, failure.reason) for failure in report.failures]
        yield Table("Passes taken out", ("pass", "reason"), taken_out, words=("reason",))


def _refused_nodes(report: OptimizationReport) -> dict[tuple[str, str], list[str]]:
    nodes: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, refusal in report.refusals:
        nodes[name, refusal.reason].append(refusal.node)
    return nodes


def _listed(names: list[str]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")


class _Change(NamedTuple):
    """What one rewrite adds (takes away, if negative).

    Attributes:
        nodes: operations. Inputs and attributes are none.
        cost: FLOPs and bytes; `None` where costs are not known.
        uncounted: names of the operators that come or go and whose FLOPs are not counted.
    """

    nodes: int
    cost: tuple[int, int] | None
    uncounted: tuple[str, ...]


def _changes(graph: OptimizedGraph) -> Iterator[_Change]:
    """What each rewrite of a graph adds, in order."""
    unknown = [{node.name: node.cost.uncounted for node in costs.nodes} for costs in graph.costs or ()]
    for rewrite in graph.result.rewrites:
        before, after = ([node for node in side if node.op in OPERATIONS] for side in (rewrite.before, rewrite.after))
        names = (
            name
            for uncounted, side in zip(unknown, (before, after), strict=False)
            for node in side
            for name in uncounted.get(node.name, ())
        )
        yield _Change(len(after) - len(before), graph.cost_of(rewrite), tuple(dict.fromkeys(names)))


def _sums(made: list[_Change]) -> tuple[str, str, str]:
    """Nodes, FLOPs and bytes that rewrites add, together; empty where a cost is not known."""
    costs = [one.cost for one in made if one.cost is not None]
    nodes = f"{sum(one.nodes for one in made):+d}"
    if len(costs) < len(made):
        return nodes, "", ""
    mark = "+?" if any(one.uncounted for one in made) else ""
    return nodes, f"{sum(flops for flops, _ in costs):+,d}{mark}", f"{sum(moved for _, moved in costs):+,d}"


def _uncounted(report: OptimizationReport) -> tuple[tuple[str, ...], ...]:
    """Names of the operators whose FLOPs are not counted, before and after."""
    known = [graph.costs for graph in report.graphs if graph.costs is not None]
    return tuple(sum((costs[side].total for costs in known), Cost()).uncounted for side in (0, 1))


@document_of.register
def _json_of_report(report: OptimizationReport) -> dict[str, Any]:
    return {
        "method": report.method,
        "attempts": [{"method": attempt.strategy, "failure": attempt.failure or None} for attempt in report.attempts],
        "caveats": list(report.caveats),
        "passes": list(report.passes),
        **{name: both and {"before": both[0], "after": both[1]} for name, both in report.before_and_after.items()},
        "uncounted": dict(zip(("before", "after"), map(list, _uncounted(report)), strict=True)),
        "verified": _how_verified(report),
        "equivalence": report.equivalence and report.equivalence.as_json(),
        "denied": list(report.denied),
        "rewrites": [
            _json_of_rewrite(rewrite, change)
            for graph in report.graphs
            for rewrite, change in zip(graph.result.rewrites, _changes(graph), strict=True)
        ],
        "refusals": [
            {"pass": name, "node": refusal.node, "reason": refusal.reason} for name, refusal in report.refusals
        ],
        "failures": [{"pass": failure.name, "reason": failure.reason} for failure in report.failures],
        "engine": report.engine and report.engine.as_json(),
        "seconds": {name: seconds for graph in report.graphs for name, seconds in graph.result.seconds.items()},
    }


def _json_of_rewrite(rewrite: Rewrite, change: _Change) -> dict[str, Any]:
    flops, moved = change.cost or (None, None)
    return {
        "rule": rewrite.rule,
        "node": rewrite.node,
        "source": source_line(rewrite.stack_trace),
        "exactness": str(rewrite.tolerance),
        "before": [str(node) for node in rewrite.before],
        "after": [str(node) for node in rewrite.after],
        "reused": rewrite.reused,
        "nodes": change.nodes,
        "flops": flops,
        "uncounted": list(change.uncounted),
        "bytes": moved,
    }


def draw_changes(report: OptimizationReport) -> list[tuple[GraphPicture, GraphPicture]]:
    """Each graph before and after, the rewritten nodes marked by a double border and a bold label."""
    pictures = []
    for graph in report.graphs:
        after = graph.result.graph_module
        difference = diff_graphs(graph.before, after)
        pictures.append(
            (
                draw(graph.before, title="before", highlight=sorted(difference.marked_before)),
                draw(after, title="after", highlight=sorted(difference.marked_after)),
            )
        )
    return pictures

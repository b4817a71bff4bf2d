"""What an optimisation did and what it left alone, as tables, pictures and JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from fxopt_core.graphs.editor import Rewrite
from fxopt_core.optimizer import OptimizationReport, OptimizationResult
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
    opening = f"Captured by {report.method}; {report.nodes_before} operations became {report.nodes_after}."
    caveats = (f"Caveat: {caveat}" for caveat in report.caveats)
    engine = () if report.engine is None else tables_of(report.engine)
    verified = Table("", notes=(f"Verified: {_how_verified(report)}.", *caveats))
    return [Table(opening), *_details(report), verified, *engine]


def _details(report: OptimizationReport) -> Iterator[Table]:
    yield Table(
        "Before and after",
        ("", "before", "after", "change"),
        [
            (name, *((f"{both[0]:,}", f"{both[1]:,}", f"{both[1] - both[0]:+,}") if both else ("not known", "", "")))
            for name, both in report.before_and_after.items()
        ],
    )
    changes: dict[tuple[str, str], list[tuple[int, tuple[int, int] | None]]] = defaultdict(list)
    for graph in report.graphs:
        for rewrite in graph.result.rewrites:
            nodes = len(rewrite.after) - len(rewrite.before)
            changes[rewrite.rule, str(rewrite.tolerance)].append((nodes, graph.cost_of(rewrite)))
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


def _sums(made: list[tuple[int, tuple[int, int] | None]]) -> tuple[str, str, str]:
    """Nodes, FLOPs and bytes that rewrites add, together; empty where a cost is not known."""
    costs = [cost for _, cost in made if cost is not None]
    nodes = f"{sum(nodes for nodes, _ in made):+d}"
    if len(costs) < len(made):
        return nodes, "", ""
    return nodes, f"{sum(flops for flops, _ in costs):+,d}", f"{sum(moved for _, moved in costs):+,d}"


@document_of.register
def _json_of_report(report: OptimizationReport) -> dict[str, Any]:
    return {
        "method": report.method,
        "attempts": [{"method": attempt.strategy, "failure": attempt.failure or None} for attempt in report.attempts],
        "caveats": list(report.caveats),
        "passes": list(report.passes),
        **{name: both and {"before": both[0], "after": both[1]} for name, both in report.before_and_after.items()},
        "verified": _how_verified(report),
        "equivalence": report.equivalence and report.equivalence.as_json(),
        "denied": list(report.denied),
        "rewrites": [
            _json_of_rewrite(rewrite, graph.cost_of(rewrite))
            for graph in report.graphs
            for rewrite in graph.result.rewrites
        ],
        "refusals": [
            {"pass": name, "node": refusal.node, "reason": refusal.reason} for name, refusal in report.refusals
        ],
        "failures": [{"pass": failure.name, "reason": failure.reason} for failure in report.failures],
        "engine": report.engine and report.engine.as_json(),
        "seconds": {name: seconds for graph in report.graphs for name, seconds in graph.result.seconds.items()},
    }


def _json_of_rewrite(rewrite: Rewrite, cost: tuple[int, int] | None) -> dict[str, Any]:
    flops, moved = cost or (None, None)
    return {
        "rule": rewrite.rule,
        "node": rewrite.node,
        "source": source_line(rewrite.stack_trace),
        "exactness": str(rewrite.tolerance),
        "before": [str(node) for node in rewrite.before],
        "after": [str(node) for node in rewrite.after],
        "reused": rewrite.reused,
        "nodes": len(rewrite.after) - len(rewrite.before),
        "flops": flops,
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

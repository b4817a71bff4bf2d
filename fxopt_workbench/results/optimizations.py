"""What an optimisation did and what it left alone, as tables, pictures and JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from torch import fx

from fxopt_core.graphs.editor import Rewrite
from fxopt_core.optimizer import OptimizationReport, OptimizationResult, OptimizedGraph
from fxopt_workbench.costs import Cost, analyze_graph
from fxopt_workbench.pictures import GraphPicture, draw
from fxopt_workbench.results.passes import row_of
from fxopt_workbench.results.source_lines import source_line
from fxopt_workbench.structure.diff import diff_graphs
from fxopt_workbench.tables import Table, document_of, tables_of

MOST_SHOWN = 20
"""How many rewrites the printed report shows one by one."""


Costs = dict[str, Cost]
"""What each node of a graph costs, by its name."""

_COSTS: WeakKeyDictionary[fx.GraphModule, tuple[Costs, Costs] | None] = WeakKeyDictionary()
"""By the graph after the passes, since a report is shown more than once."""


def costs_of(graph: OptimizedGraph) -> tuple[Costs, Costs] | None:
    """What a graph costs before and after; `None` where the capture kept no shapes, or they depend on data."""
    after = graph.result.graph_module
    if after not in _COSTS:
        try:
            found = analyze_graph(graph.before), analyze_graph(after)
            before_costs, after_costs = ({node.name: node.cost for node in costs.nodes} for costs in found)
            _COSTS[after] = before_costs, after_costs
        except ValueError:
            _COSTS[after] = None
    return _COSTS[after]


def cost_of(rewrite: Rewrite, costs: tuple[Costs, Costs] | None) -> tuple[int, int] | None:
    """FLOPs and bytes that a rewrite adds (saves, if negative); `None` where the costs of its graph are not known.

    A node that one rewrite makes and another one takes out again counts nowhere, so that the costs of all rewrites add
    up to the difference of the graphs.
    """
    if costs is None:
        return None
    before, after = costs
    removed = [before[node.name] for node in rewrite.before if node.name in before]
    added = [after[node.name] for node in rewrite.after if node.name in after]
    flops = sum(cost.flops for cost in added) - sum(cost.flops for cost in removed)
    return flops, sum(cost.bytes for cost in added) - sum(cost.bytes for cost in removed)


def before_and_after(report: OptimizationReport) -> dict[str, tuple[int, int] | None]:
    """Operations, FLOPs and bytes moved, before and after; `None` where a graph's costs are not known."""
    known = [costs for graph in report.graphs if (costs := costs_of(graph)) is not None]
    totals: dict[str, tuple[int, int] | None] = {"nodes": (report.nodes_before, report.nodes_after)}
    for name in ("flops", "bytes"):
        sides = [[sum(getattr(cost, name) for cost in costs.values()) for costs in both] for both in known]
        complete = len(known) == len(report.graphs)
        totals[name] = (sum(one[0] for one in sides), sum(one[1] for one in sides)) if complete else None
    return totals


def how_verified(report: OptimizationReport) -> str:
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
    verified = Table("", notes=(f"Verified: {how_verified(report)}.", *caveats))
    return [Table(opening), *_details(report), verified, *engine]


def _details(report: OptimizationReport) -> Iterator[Table]:
    yield Table(
        "Before and after",
        ("", "before", "after", "change"),
        [
            (name, *((f"{both[0]:,}", f"{both[1]:,}", f"{both[1] - both[0]:+,}") if both else ("not known", "", "")))
            for name, both in before_and_after(report).items()
        ],
    )
    changes: dict[tuple[str, str], list[tuple[int, tuple[int, int] | None]]] = defaultdict(list)
    for graph in report.graphs:
        costs = costs_of(graph)
        for rewrite in graph.result.rewrites:
            nodes = len(rewrite.after) - len(rewrite.before)
            changes[rewrite.rule, str(rewrite.tolerance)].append((nodes, cost_of(rewrite, costs)))
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
        **{name: both and {"before": both[0], "after": both[1]} for name, both in before_and_after(report).items()},
        "verified": how_verified(report),
        "equivalence": report.equivalence and report.equivalence.as_json(),
        "denied": list(report.denied),
        "rewrites": [
            _json_of_rewrite(rewrite, cost_of(rewrite, costs_of(graph)))
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

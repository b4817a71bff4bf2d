"""What a check shows of the learner's own rewrite: pictures before and after, and a table of the change."""

from __future__ import annotations

from collections import Counter

from torch import fx

from fxopt_core.graphs import is_operation, operation_name
from fxopt_workbench.pictures import GraphPicture, draw
from fxopt_workbench.structure.diff import diff_graphs


def before_and_after(case: str, before: fx.GraphModule, after: fx.GraphModule) -> list[GraphPicture | str]:
    """For `show(case, evidence)` in a task's `visible.py`: both graphs, with what is different marked, and a table.

    Args:
        case: name of the case, for the titles.
        before: the graph as it was; another object than `after`.
        after: what the learner's code made of it, such as `graph_form.decode(evidence.graphs["after"])`.
    """
    change = diff_graphs(before, after)
    return [
        table_of_change(case, before, after),
        draw(before, title=f"{case}: before", highlight=change.marked_before),
        draw(after, title=f"{case}: after", highlight=change.marked_after),
    ]


def table_of_change(case: str, before: fx.GraphModule, after: fx.GraphModule) -> str:
    """How often each operation occurs before and after, then the nodes that are different."""
    counts = [_operations(graph) for graph in (before, after)]
    names = sorted(counts[0].keys() | counts[1].keys())
    width = max(len(name) for name in [*names, "operations in all"])
    lines = [f"{case}: what your code changed", f"  {'':{width}}  before  after"]
    for name in names:
        sign = " " if counts[0][name] == counts[1][name] else "*"
        lines.append(f"{sign} {name:{width}}  {counts[0][name]:6}  {counts[1][name]:5}")
    lines.append(f"  {'operations in all':{width}}  {counts[0].total():6}  {counts[1].total():5}")
    return "\n".join([*lines, diff_graphs(before, after).as_text(context=1)])


def _operations(graph_module: fx.GraphModule) -> Counter[str]:
    return Counter(operation_name(node) for node in graph_module.graph.nodes if is_operation(node))

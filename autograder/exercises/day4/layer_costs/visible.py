"""The learner's side: transformers of several sizes, which layer a node belongs to, the probe and what is shown."""

from __future__ import annotations

import re
from typing import Any

from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day4.blocks import build, transformer


def visible_cases() -> list[Case]:
    """BERT and GPT-2, whose inner width is not four times the outer one."""
    return [
        transformer("BERT", "bert", batch=4, length=6, width=16, heads=2, layers=2, inner=24),
        transformer("GPT-2", "gpt2", batch=3, length=5, width=12, heads=3, layers=2, inner=40, seed=1),
    ]


def make_ahead() -> None:
    """Export the models of the visible cases once, before a learner's code runs: `build` then gives copies of them."""
    for case in visible_cases():
        build(case)


def layer_of(node: fx.Node) -> int | None:
    """The number of the layer that a node belongs to; `None` for what lies before, between or behind the layers.

    Layers are told by the module that was running when the exporter wrote the node.
    """
    paths = [path for path, _ in node.meta.get("nn_module_stack", {}).values()]
    numbers = [int(found[1]) for path in paths if (found := re.search(r"\.(\d+)(\.|$)", path))]
    return numbers[-1] if numbers else None


def probe(case: Case, layer_formula: Any, layer_costs: Any) -> Evidence:
    """Both functions on the case's model, the formula on further sizes, and the count once more on the same graph."""
    given, form = case.parameters, case.parameters["form"]
    formula = layer_formula(given["batch"], given["length"], form["width"], form["inner"])
    graph_module = build(case)
    values = {"formula": _number(formula), "costs": _numbers(layer_costs(graph_module))}
    values["formulas"] = [_number(layer_formula(*sizes)) for sizes in given.get("sizes", [])]
    values["again"] = _numbers(layer_costs(graph_module))
    return Evidence(values | {"after": described(graph_module)})


def described(graph_module: fx.GraphModule) -> list[str]:
    """The nodes in order, with what they do and read, the shape that is noted, and the names of all other notes."""
    return [
        f"{node.op} {node.name} {node.target} {node.args} {node.kwargs} {node.meta.get('val')} {sorted(node.meta)}"
        for node in graph_module.graph.nodes
    ]


def _numbers(costs: Any) -> list[int | None] | None:
    return [_number(cost) for cost in costs] if isinstance(costs, (list, tuple)) else None


def _number(value: Any) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The table, with the formula beside it."""
    formula, costs = evidence.values["formula"], evidence.values["costs"] or []
    lines = [f"{case.name}: operations per layer", "  layer      counted      formula"]
    lines += [f"  {number:5} {cost!s:>12} {formula!s:>12}" for number, cost in enumerate(costs)]
    return ["\n".join(lines)]

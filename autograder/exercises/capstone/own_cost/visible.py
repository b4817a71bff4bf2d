"""The learner's side: a cost tool on graphs at ATen level, each node of which it counts or names as unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import EncodedGraph, decode
from autograder.exercises.capstone import KINDS
from autograder.exercises.capstone.examples import restore_examples
from autograder.exercises.capstone.installing import load
from autograder.exercises.capstone.mystery import put_in

(KIND,) = (kind for kind in KINDS if kind.name == "cost")


def visible_cases() -> list[Case]:
    """One model of each family."""
    # The judge calls this; where the learner's code runs, what makes programs is not there.
    from autograder.exercises.capstone.own_cost.programs import cases_from

    return cases_from("visible")


def probe(case: Case, registered: Sequence[str]) -> Evidence:
    """Count the graph.

    Values: `tools` (names), and what came back: `costs` (by the node's name, two numbers or null), or `returned`, the
    name of a type that is no mapping of this form.
    """
    evidence = Evidence({"tools": list(registered)})
    if len(registered) != 1:
        return evidence
    tool = load(KIND.group, registered[0], KIND.task.withheld)
    graph_module = decode(EncodedGraph(case.parameters["graph"], case.tensors))
    restore_examples(graph_module)
    put_in(graph_module, case.parameters["custom"])
    costs = tool(graph_module)
    if isinstance(costs, Mapping) and all(_is_cost(cost) for cost in costs.values()):
        evidence.values["costs"] = {str(name): None if cost is None else list(cost) for name, cost in costs.items()}
    else:
        evidence.values["returned"] = type(costs).__name__
    return evidence


def _is_cost(cost: object) -> bool:
    pair = isinstance(cost, (tuple, list)) and len(cost) == 2
    return cost is None or (pair and all(type(figure) is int for figure in cost))  # type: ignore[attr-defined]

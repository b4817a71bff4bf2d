"""The learner's side: programs with forks and joins, the probe and what the check shows."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import encode
from autograder.exercises.day2.programs import build, program


def visible_cases() -> list[Case]:
    """A fork, a value read twice, lists, a value that is returned, paths that mislead, and one that ends in a write."""
    return [
        program("a fork", "a = torch.relu(x)\nb = torch.tanh(a)\nreturn torch.exp(a) + b"),
        program("a value read twice by one node", "a = torch.relu(x)\nreturn a * a"),
        program("values in a list", "a = torch.relu(x)\nb = torch.cat([a, x], dim=1)\nreturn torch.stack([b, b + 1])"),
        program("a value that is also returned", "a = torch.relu(x)\nreturn a, torch.exp(a)"),
        program(
            "the short way is written last",
            "a = torch.relu(x)\nb = a.tanh()\nc = b.exp()\nd = c.sigmoid()\ne = torch.neg(a)\nf = d + e\n"
            "g = torch.abs(x)\nreturn f * g",
        ),
        program(
            "the longest way starts late",
            "a = torch.exp(torch.relu(x))\nb = torch.neg(y)\nc = b.tanh()\nd = c.sin()\ne = d.cos()\nreturn a, e",
            arguments="x, y",
            inputs=((2, 4), (2, 4)),
        ),
        program("the longest way ends in a write", "h = x * 2\nh[0].exp_().sin_().cos_()\nreturn h"),
    ]


def probe(case: Case, shared_values: Any, critical_path: Any) -> Evidence:
    """Ask one graph for both, and look at it afterwards; nodes count as their names.

    Where the case says `again`, the graph is then changed and asked once more. Where it says `notes`, somebody has
    written notes of these names into the nodes' `meta` before.
    """
    graph_module = build(case)
    for number, node in enumerate(graph_module.graph.nodes):
        node.meta |= {name: first + number for name, first in case.parameters.get("notes", {}).items()}
    noted = _notes(graph_module)
    found = {"shared": shared_values(graph_module), "path": critical_path(graph_module)}
    evidence = Evidence({name: _names(answer) for name, answer in found.items()})
    evidence.values["kinds"] = " and ".join(type(answer).__name__ for answer in found.values())
    evidence.values["left notes"] = not _same_notes(noted, _notes(graph_module))
    evidence.graphs["looked at"] = encode(graph_module)
    if case.parameters.get("again"):
        put_first(graph_module)
        evidence.values["shared again"] = _names(shared_values(graph_module))
        evidence.values["path again"] = _names(critical_path(graph_module))
    return evidence


def _notes(graph_module: fx.GraphModule) -> list[dict[str, Any]]:
    """What stands in the `meta` of the nodes, and which attributes they, the graph and its module have."""
    nodes = list(graph_module.graph.nodes)
    attributes = [dict.fromkeys(vars(part)) for part in (*nodes, graph_module.graph, graph_module)]
    held = [dict(node.meta) for node in nodes] + attributes
    return [{name: note for name, note in notes.items() if not name.startswith("_")} for notes in held]


def _same_notes(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> bool:
    """Whether the same notes are there, each the very object that it was: a note may be a tensor."""
    if [set(notes) for notes in before] != [set(notes) for notes in after]:
        return False
    pairs = zip(before, after, strict=True)
    return all(left[name] is note for notes, left in pairs for name, note in notes.items())


def put_first(graph_module: fx.GraphModule) -> None:
    """Let whoever read the first input read its negation."""
    first = next(iter(graph_module.graph.nodes))
    with graph_module.graph.inserting_after(first):
        negated = graph_module.graph.call_function(torch.neg, (first,))
    first.replace_all_uses_with(negated, delete_user_cb=lambda user: user is not negated)
    graph_module.recompile()


def _names(found: Any) -> list[str] | None:
    return [str(item) for item in found] if isinstance(found, (list, tuple)) else None


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph with the learner's critical path marked."""
    from fxopt_workbench.pictures import draw

    graph = build(case)
    known = {node.name for node in graph.graph.nodes}
    path = [name for name in evidence.values["path"] or [] if name in known]
    return [
        draw(graph, title=f"{case.name}: your critical path", highlight=path),
        f"{case.name}: shared values {evidence.values['shared']}, critical path {evidence.values['path']}",
    ]

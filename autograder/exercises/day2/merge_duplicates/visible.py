"""The learner's side: programs that compute something twice, or only seem to."""

from __future__ import annotations

from typing import Any

from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import encode
from autograder.exercises.day2.old_code import ageing
from autograder.exercises.day2.programs import build, program, rewrite_evidence, show_rewrite

SQUARE = ((4, 4),)


def visible_cases() -> list[Case]:
    """What must be merged first, then what only looks equal, then what is equal and must stay two."""
    return [
        program("the same twice", "a = torch.exp(x)\nb = torch.exp(x)\nreturn a + b.tanh()", trap="twice"),
        program(
            "equal because their inputs are",
            "a = torch.exp(x)\nb = torch.exp(x)\nc = torch.neg(a)\nd = torch.neg(b)\nreturn c * d.tanh()",
            trap="levels",
        ),
        program(
            "keywords in another order",
            "return torch.clamp(x, min=-1.0, max=1.0) + torch.clamp(x, max=1.0, min=-1.0).tanh()",
            trap="order",
        ),
        program(
            "values in a list",
            "return torch.cat([x, x], dim=1) * torch.cat([x, x], dim=1).tanh()",
            trap="lists",
        ),
        program(
            "one layer called twice, and two layers",
            "return self.one(x) + self.one(x).tanh() - self.other(x)",
            state={"one": "nn.Linear(4, 4)", "other": "nn.Linear(4, 4)"},
            trap="modules",
        ),
        program(
            "other keyword arguments",
            "return torch.sum(x, dim=0) - torch.sum(x, dim=1)",
            inputs=SQUARE,
            trap="keywords",
        ),
        program(
            "1, 1.0 and True",
            "a = x + 1\nb = x + 1.0\nc = x + True\nreturn a * 2, b * 2, c * 2",
            inputs=([[3], "int64"],),
            trap="literals",
        ),
        program(
            "two random draws",
            "return F.dropout(x, 0.5, True) + F.dropout(x, 0.5, True).tanh()",
            trap="draws",
        ),
        program(
            "a layer in training",
            "return self.norm(x) + self.norm(x).tanh()",
            state={"norm": "nn.BatchNorm1d(4)"},
            inputs=((6, 4),),
            training=True,
            trap="training",
        ),
        program(
            "a write in between",
            "h = x * 2\na = torch.exp(h)\nh.add_(1.0)\nb = torch.exp(h)\nreturn a - b",
            trap="write between",
        ),
        program(
            "a write in between, through a view",
            "h = x * 2\na = torch.exp(h)\nh[0].zero_()\nb = torch.exp(h)\nreturn a - b",
            trap="write between",
        ),
        program(
            "one of the two is written later",
            "a = x * 2\nb = x * 2\na.add_(1.0)\nreturn torch.exp(a) - b",
            trap="written",
        ),
        program("both are returned", "return torch.exp(x), torch.exp(x)", trap="returned"),
        program(
            "one is used, two are returned",
            "a = torch.exp(x)\nb = torch.exp(x)\nc = torch.exp(x)\nreturn a.sum(), b, c",
            trap="returned",
        ),
    ]


def probe(case: Case, find_duplicates: Any, merge_duplicates: Any) -> Evidence:
    """What the learner's function makes of the case's graph, and what the other one finds in it."""
    old_code: list[bool] = []
    evidence = rewrite_evidence(case, ageing(merge_duplicates, old_code))
    evidence.values["old code"] = any(old_code)
    looked_at = build(case)
    found = find_duplicates(looked_at)
    nodes = isinstance(found, dict) and all(isinstance(node, fx.Node) for pair in found.items() for node in pair)
    evidence.values["found"] = [[node.name, first.name] for node, first in found.items()] if nodes else None
    if nodes and any(node.graph is not looked_at.graph for pair in found.items() for node in pair):
        evidence.values["found"] = "nodes of another graph"
    evidence.graphs["looked at"] = encode(looked_at)
    return evidence


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph before and after, and the change."""
    return show_rewrite(case, evidence)

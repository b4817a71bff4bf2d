"""The learner's side: programs with nodes whose value nobody reads, some of which must stay."""

from __future__ import annotations

from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day2.old_code import ageing
from autograder.exercises.day2.programs import program, rewrite_evidence, show_rewrite


def visible_cases() -> list[Case]:
    """A dead chain, dead modules, an unused input, and every kind of effect."""
    return [
        program(
            "a dead chain",
            "a = torch.relu(x)\nb = torch.exp(a)\nc = b.tanh()\nreturn torch.abs(x)",
            trap="chain",
        ),
        program(
            "a dead layer in evaluation mode",
            "unused = self.drop(self.layer(x))\nreturn torch.neg(x)",
            state={"layer": "nn.Linear(4, 3)", "drop": "nn.Dropout(0.5)"},
            trap="pure modules",
        ),
        program(
            "an input that is not used",
            "unused = torch.exp(y)\nreturn torch.relu(x)",
            arguments="x, y",
            inputs=((2, 4), (3,)),
            trap="inputs",
        ),
        program(
            "a method that writes",
            "a = torch.exp(x)\na.add_(1.0)\nreturn a * 2",
            trap="writes",
        ),
        program(
            "a write through a view",
            "a = torch.exp(x)\nfirst = a[0]\nfirst.zero_()\nreturn a.sum()",
            trap="writes through views",
        ),
        program(
            "a function that writes because it is told to",
            "a = torch.neg(x)\nF.relu(a, inplace=True)\ntorch.sin(x, out=y)\nreturn a",
            arguments="x, y",
            inputs=((2, 4), (2, 4)),
            trap="flags",
        ),
        program(
            "a module that writes",
            "a = torch.neg(x)\nself.act(a)\nreturn a + 1",
            state={"act": "nn.ReLU(inplace=True)"},
            trap="modules that write",
        ),
        program(
            "a random draw before another one",
            "unused = torch.rand_like(x)\nreturn F.dropout(x, 0.5, True)",
            trap="draws",
        ),
        program(
            "batch statistics in training",
            "unused = self.norm(x)\nreturn torch.relu(x)",
            state={"norm": "nn.BatchNorm1d(4)"},
            inputs=((6, 4),),
            training=True,
            trap="training",
        ),
        program(
            "a check",
            "torch._assert(x.shape[0] > 1, 'one row is not enough')\nreturn torch.relu(x)",
            trap="checks",
        ),
    ]


def probe(case: Case, remove_dead_code: Any) -> Evidence:
    """What the learner's function makes of the case's graph."""
    old_code: list[bool] = []
    evidence = rewrite_evidence(case, ageing(remove_dead_code, old_code))
    evidence.values["old code"] = any(old_code)
    return evidence


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph before and after, and the change."""
    return show_rewrite(case, evidence)

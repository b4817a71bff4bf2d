"""The learner's side: programs that compute from weights alone, some of which must do so at every call."""

from __future__ import annotations

from typing import Any

from autograder.evidence import Case, Evidence
from autograder.exercises.day2.programs import program, rewrite_evidence, show_rewrite

WEIGHT = {"w": "torch.rand(4, 4)"}


def visible_cases() -> list[Case]:
    """What can be folded first, then what only seems constant."""
    return [
        program(
            "a chain of three operations",
            "scale = (self.w.abs() + 1).sqrt()\nreturn x @ scale",
            state=WEIGHT,
            trap="chain",
            least=1,
        ),
        program(
            "two constants, and keywords",
            "a = torch.softmax(self.w, dim=0)\nb = self.v.sum(dim=1, keepdim=True)\nreturn (x @ a) * b.t()",
            state=WEIGHT | {"v": "torch.rand(4, 4)"},
            trap="two",
            least=2,
        ),
        program(
            "a layer on a weight, in evaluation",
            "return x @ self.layer(self.w)",
            state=WEIGHT | {"layer": "nn.Linear(4, 4)"},
            trap="modules",
            least=1,
        ),
        program(
            "noise of the shape of a weight",
            "noise = torch.rand_like(self.w) * 2\nreturn x @ noise",
            state=WEIGHT,
            trap="draws",
            least=3,
        ),
        program(
            "a counter",
            "self.calls.add_(1.0)\nrate = 1 / self.calls\nreturn x * rate",
            state={"calls": "torch.zeros(())"},
            trap="written buffer",
            least=3,
        ),
        program(
            "a parameter, in training",
            "return x @ self.scale.exp()",
            state={"scale": "nn.Parameter(torch.rand(4, 4))"},
            training=True,
            trap="training",
            least=2,
        ),
        program(
            "the same parameter, in evaluation",
            "return x @ self.scale.exp()",
            state={"scale": "nn.Parameter(torch.rand(4, 4))"},
            trap="parameters",
            least=1,
        ),
        program(
            "a constant that is returned",
            "table = self.w.abs() * 2\nreturn x + 1, torch.exp(table)",
            state=WEIGHT,
            trap="returned",
            least=2,
        ),
        program(
            "a constant that is written",
            "total = self.w * 2\ntotal.add_(x)\nreturn total.sum(dim=0)",
            state=WEIGHT,
            inputs=((4, 4),),
            trap="written result",
            least=3,
        ),
    ]


def probe(case: Case, fold_constants: Any) -> Evidence:
    """What the learner's function makes of the case's graph."""
    return rewrite_evidence(case, fold_constants)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph before and after, and the change."""
    return show_rewrite(case, evidence)

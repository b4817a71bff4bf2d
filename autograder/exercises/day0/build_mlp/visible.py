"""The learner's side: two linear layers, the probe and what the check shows."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, decode, encode
from autograder.learner_side.withheld import WithheldImportError


def visible_cases() -> list[Case]:
    """Two pairs of layers of different sizes and dtypes."""
    return [
        Case("4 to 8 to 3", {"widths": [4, 8, 3], "bias": True, "batch": 5, "seed": 0}),
        Case(
            "6 to 6 to 6, no bias, double precision",
            {"widths": [6, 6, 6], "bias": False, "batch": 2, "seed": 1, "dtype": "float64"},
        ),
    ]


def build(case: Case) -> tuple[nn.Linear, nn.Linear, torch.Tensor]:
    """The case's two layers, which may be one and the same, and an input of shape (batch, first width)."""
    given = case.parameters
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(given["seed"])
        width, middle, last = given["widths"]
        dtype = getattr(torch, given.get("dtype", "float32"))
        first, second = (nn.Linear(*sizes, given["bias"], dtype=dtype) for sizes in ((width, middle), (middle, last)))
        for path in given.get("frozen", ()):
            nn.ModuleDict({"first": first, "second": second}).get_parameter(path).requires_grad_(False)
        second.train(not given.get("evaluated"))
        return first, first if given.get("twice") else second, torch.randn(given["batch"], width, dtype=dtype)


def train(first: nn.Linear, second: nn.Linear) -> None:
    """Change the layers in place, as training would: a graph of copies does not change with them."""
    with torch.no_grad():
        for parameter in dict.fromkeys((*first.parameters(), *second.parameters())):
            parameter.copy_(parameter.flip(0) * 0.5 + 0.125)


def _state_of(first: nn.Linear, second: nn.Linear) -> dict[str, list[Any]]:
    """What is to stay as it is with the layers besides the numbers in them: who learns, and the modes."""
    return {
        "requires_grad": [parameter.requires_grad for layer in (first, second) for parameter in layer.parameters()],
        "training": [layer.training for layer in (first, second)],
    }


def probe(case: Case, build_mlp: Any) -> Evidence:
    """Build and lint the learner's graph, change the layers, and run it; note whether a tracer was at work."""
    first, second, x = build(case)
    traced: list[str] = []
    trace = fx.Tracer.trace

    def noting(self: Any, *arguments: Any, **options: Any) -> Any:
        traced.append(type(self).__name__)
        return trace(self, *arguments, **options)

    made, before = None, _state_of(first, second)
    try:
        with patch.object(fx.Tracer, "trace", noting):
            made = build_mlp(first, second)
    except WithheldImportError:  # while graded, tracers are hollow
        traced.append("")
    evidence = Evidence({"kind": type(made).__name__, "traced": bool(traced), "lint": "", "kinds": None, "ran": ""})
    evidence.values["changed"] = sorted(name for name, was in before.items() if _state_of(first, second)[name] != was)
    if not isinstance(made, fx.GraphModule):
        evidence.values["kind"] = f"no GraphModule but {type(made).__name__}"
        return evidence
    try:
        made.graph.lint()
    except Exception as error:  # lint raises several types
        evidence.values["lint"] = str(error)[:300]
    evidence.values["kinds"] = [node.op for node in made.graph.nodes]
    if evidence.values["lint"] or "output" not in evidence.values["kinds"]:
        return evidence  # such a graph has no encoded form
    train(first, second)
    try:
        evidence.graphs["built"] = encode(made)
    except GraphFormatError as error:
        evidence.values["opaque"] = str(error)[:300]
        return evidence
    try:
        result = made(x)
    except Exception as error:  # a graph of the learner may raise anything when it runs
        evidence.values["ran"] = f"{type(error).__name__}: {error}"[:300]
        return evidence
    evidence.values["result"] = type(result).__name__
    if isinstance(result, torch.Tensor):
        evidence.tensors["result"] = result
    return evidence


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The learner's graph: what it is in text, and drawn."""
    from fxopt_workbench.pictures import draw

    exhibits: list[Any] = []
    for graph in evidence.graphs.values():
        built = decode(graph)
        exhibits.append(f"{case.name}: your graph\n{built.graph}")
        exhibits.append(draw(built, title=f"{case.name}: your graph"))
    return exhibits

"""The learner's side: a capture tool on models, each of which it may capture as one graph or refuse."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, encode
from autograder.exercises.capstone import KINDS
from autograder.exercises.capstone.capture_models import FAMILIES, model_of
from autograder.exercises.capstone.installing import load

(KIND,) = (kind for kind in KINDS if kind.name == "capture")


def visible_cases() -> list[Case]:
    """One model of each family."""
    return cases_from("visible")


def cases_from(seed: str) -> list[Case]:
    """One model of each family, in sizes from this seed."""
    return [Case(f"model, {family}", {"family": family, "seed": seed}) for family in FAMILIES]


def probe(case: Case, registered: Sequence[str]) -> Evidence:
    """Capture the model.

    Values: `tools` (names), `model kept` (state and modes), and how it went: `refused` (the reason), `returned` (the
    name of a type that is no graph module), `cannot travel`. Graphs: `captured`.
    """
    evidence = Evidence({"tools": list(registered)})
    if len(registered) != 1:
        return evidence
    tool = load(KIND.group, registered[0], KIND.task.withheld)
    model, inputs = model_of(case.parameters["family"], case.parameters["seed"])
    before = _observed(model)
    try:
        graph_module = tool(model, copy.deepcopy(inputs))
    except ValueError as error:
        evidence.values["refused"] = str(error)[:500]
        return evidence
    finally:
        evidence.values["model kept"] = _observed(model) == before
    if not isinstance(graph_module, fx.GraphModule):
        evidence.values["returned"] = type(graph_module).__name__
        return evidence
    try:
        evidence.graphs["captured"] = encode(graph_module)
    except GraphFormatError as error:
        evidence.values["cannot travel"] = str(error)[:500]
    return evidence


def _observed(model: torch.nn.Module) -> list[Any]:
    """State, modes and plain attributes of a model, as something comparable."""
    state = [(name, value.tolist()) for name, value in model.state_dict().items()]
    plain = [
        (name, key, value)
        for name, module in model.named_modules()
        for key, value in vars(module).items()
        if isinstance(value, (bool, int, float, str))
    ]
    return [state, plain]

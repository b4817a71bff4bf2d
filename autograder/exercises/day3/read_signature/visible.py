"""The learner's side: models with inputs of every kind, the visible cases, the probe and what is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram, export

from autograder.exchange.evidence import Case, Evidence

KEYS = ("parameters", "buffers", "inputs", "unused")
"""What the learner's answer has to name."""


class Mixed(nn.Module):
    """Layers in a chain; a shift that is trained, one that was measured, one that `state_dict` leaves out."""

    measured: torch.Tensor
    scratch: torch.Tensor

    def __init__(self, layers: int, spare: list[str], persistent: bool) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(layers))
        self.shift = nn.Parameter(torch.zeros(3))
        self.register_buffer("measured", torch.zeros(3))
        self.register_buffer("scratch", torch.ones(3), persistent=persistent)
        self.spare = nn.ModuleDict({name: nn.Linear(3, 2) for name in spare})  # left over; nobody calls them

    def forward(self, signal: torch.Tensor, weight: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        """(batch, 3) twice to (batch, 3); `label` is for training only."""
        hidden = (signal - self.measured) * self.scratch
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden))
        return hidden * weight + self.shift


def visible_cases() -> list[Case]:
    """One model with a layer left over, and one without."""
    return [
        Case("a layer left over", {"layers": 2, "spare": ["old_head"], "persistent": False}),
        Case("no layer left over", {"layers": 1, "spare": [], "persistent": True}),
    ]


def build(case: Case) -> ExportedProgram:
    """The case's model as an exported program."""
    model = Mixed(**case.parameters).eval()
    return export(model, (torch.ones(2, 3), torch.ones(2, 3), torch.ones(2)))


def probe(case: Case, read_signature: Any) -> Evidence:
    """Ask for the inputs of the program."""
    found = read_signature(build(case))
    if not isinstance(found, Mapping):
        return Evidence({"kind": type(found).__name__})
    values: dict[str, Any] = {"kind": "mapping"}
    for key in KEYS:
        names = found.get(key)
        values[key] = None if names is None or isinstance(names, str) else sorted(str(name) for name in names)
    return Evidence(values)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What the learner read."""
    lines = [f"{case.name}: what you read"]
    lines += [f"  {key:11} {', '.join(evidence.values.get(key) or []) or '(none)'}" for key in KEYS]
    return ["\n".join(lines)]

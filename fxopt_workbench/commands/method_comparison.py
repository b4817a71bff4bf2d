"""Which capture methods get the models with and without control flow."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass

import torch

from fxopt_core.capture import Captured, CaptureError, capture
from fxopt_workbench import zoo

MODELS = ("simple", "control", "loops")
METHODS = ("symbolic_trace", "dynamo", "export", "aot", "jit.trace", "jit.script", "auto")


@dataclass(frozen=True)
class Outcome:
    """What one method made of one model: `captured`, or the `error` that says why not."""

    model: str
    method: str
    captured: Captured | None
    error: CaptureError | None

    def in_short(self) -> str:
        """A few words for a table."""
        if self.captured is None:
            return "not captured"
        words = [
            counted(self.captured.partitions, "graph"),
            counted(self.captured.operation_counts().total(), "operation"),
        ]
        if self.captured.graph_breaks:
            words.append(counted(self.captured.graph_breaks, "graph break"))
        if wrong := [one.on for one in self.captured.agreements if not one.agrees and not one.refusal]:
            words.append(f"WRONG on {' and '.join(wrong)}")
        return ", ".join(words)


def counted(things: Sized | int, word: str) -> str:
    """`1 graph`, `2 graphs`."""
    number = things if isinstance(things, int) else len(things)
    return f"{number} {word}{'s' * (number != 1)}"


def compare_methods(device: torch.device) -> list[Outcome]:
    """Try every method of `METHODS` on every model of `MODELS`."""
    outcomes = []
    for name in MODELS:
        chosen = zoo.build(name, device)
        for method in METHODS:
            try:
                outcomes.append(Outcome(name, method, capture(chosen.model, chosen.example_inputs, method), None))
            except CaptureError as error:
                outcomes.append(Outcome(name, method, None, error))
    return outcomes

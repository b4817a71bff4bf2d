"""The learner's side: models that a trace may get wrong, the visible cases, the probe and what the check shows."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence

MOST = 1000.0
"""Largest absolute value that an input may hold."""


class Threshold(nn.Module):
    """Takes one of two layers, by the mean of its input."""

    def __init__(self, width: int, threshold: float) -> None:
        super().__init__()
        self.above, self.below, self.threshold = nn.Linear(width, 3), nn.Linear(width, 3), threshold

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to (batch, 3)."""
        pooled = x.sum(dim=1)
        return self.above(pooled) if x.mean() > self.threshold else self.below(pooled)


class Recurrent(nn.Module):
    """Reads a sequence step by step."""

    def __init__(self, width: int, threshold: float) -> None:
        super().__init__()
        self.step, self.scale = nn.Linear(width, width), threshold

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to (batch, width)."""
        hidden = torch.zeros_like(x[:, 0])
        for position in range(x.shape[1]):
            hidden = torch.tanh(self.step(hidden) + self.scale * x[:, position])
        return hidden


class Halving(nn.Module):
    """Halves its input until no value is above a threshold."""

    def __init__(self, width: int, threshold: float) -> None:
        super().__init__()
        self.layer, self.threshold = nn.Linear(width, 3), threshold

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to (batch, 3)."""
        pooled = x.mean(dim=1)
        while pooled.abs().max() > self.threshold:
            pooled = pooled / 2
        return self.layer(pooled)


class Faithful(nn.Module):
    """Also takes one of two layers, by the mean of its input, but both are in the graph."""

    def __init__(self, width: int, threshold: float) -> None:
        super().__init__()
        self.above, self.below, self.threshold = nn.Linear(width, 3), nn.Linear(width, 3), threshold

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to (batch, 3)."""
        pooled = x.mean(dim=1)
        return torch.where(x.mean() > self.threshold, self.above(pooled), self.below(pooled))


class Rescaled(nn.Module):
    """Divides by 30 in one of two ways, by the mean of its input, and tells what is left: rounding, at most."""

    def __init__(self, width: int, threshold: float) -> None:
        super().__init__()
        self.layer, self.threshold = nn.Linear(width, 3), threshold

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to (batch, 6)."""
        hidden = self.layer(x.mean(dim=1))
        scaled = hidden / 30 if x.mean() > self.threshold else hidden * (1 / 30)
        return torch.cat([scaled, scaled - hidden / 30], dim=1)


class EachStep(nn.Module):
    """Answers for each step of a sequence."""

    def __init__(self, width: int, threshold: float) -> None:
        super().__init__()
        self.layer, self.scale = nn.Linear(width, 3), threshold

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to (batch, length, 3)."""
        answers = [torch.tanh(self.layer(self.scale * x[:, position])) for position in range(x.shape[1])]
        return torch.stack(answers, dim=1)


class Greatest(nn.Module):
    """Takes a sequence apart, and goes on with the greatest values of all steps."""

    def __init__(self, width: int, threshold: float) -> None:
        super().__init__()
        self.layer, self.scale = nn.Linear(width, 3), threshold

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to (batch, 3)."""
        greatest, *others = x.unbind(dim=1)
        for step in others:
            greatest = torch.maximum(greatest, step)
        return torch.tanh(self.layer(self.scale * greatest))


MODELS: dict[str, type[nn.Module]] = {
    "threshold": Threshold,
    "recurrent": Recurrent,
    "halving": Halving,
    "faithful": Faithful,
    "rescaled": Rescaled,
    "each step": EachStep,
    "greatest": Greatest,
}


def visible_cases() -> list[Case]:
    """Branches, loops over a shape, a model that is traced faithfully, and one whose trace is never silently wrong."""
    return [
        Case("a branch on the sign", {"model": "threshold", "threshold": 0.0, "shape": [2, 5, 4], "seed": 0}),
        Case("a loop over the length", {"model": "recurrent", "threshold": 1.0, "shape": [3, 4, 5], "seed": 1}),
        Case("a rare branch", {"model": "threshold", "threshold": 20.0, "shape": [2, 3, 6], "seed": 2}),
        Case("nothing to find", {"model": "faithful", "threshold": 0.5, "shape": [2, 4, 3], "seed": 3}),
        Case("an answer for each step", {"model": "each step", "threshold": 1.0, "shape": [2, 3, 4], "seed": 4}),
        Case("nothing but errors", {"model": "greatest", "threshold": 1.0, "shape": [3, 4, 3], "seed": 5}),
    ]


def build(case: Case) -> tuple[nn.Module, Any, torch.Tensor]:
    """The model in eval mode, what `torch.jit.trace` made of it, and the example (batch, length, width) it saw."""
    given = case.parameters
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a deprecation, and the tracer's own doubts
        torch.manual_seed(given["seed"])
        model = MODELS[given["model"]](given["shape"][-1], given["threshold"]).eval()
        example = torch.randn(given["shape"])
        return model, torch.jit.trace(model, (example,), check_trace=False), example


def probe(case: Case, find_silent_mistake: Any) -> Evidence:
    """Let the learner look for an input; only the input travels."""
    model, traced, example = build(case)
    with torch.no_grad():
        found = find_silent_mistake(model, traced, example.clone())
    if isinstance(found, torch.Tensor):
        return Evidence({"kind": "tensor"}, {"found": found})
    return Evidence({"kind": "nothing" if found is None else type(found).__name__})


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What model and trace say of the input that was found."""
    if "found" not in evidence.tensors:
        return [f"{case.name}: you found {evidence.values['kind']}"]
    model, traced, _ = build(case)
    x = evidence.tensors["found"]
    lines = [f"{case.name}: your input has shape {tuple(x.shape)} and mean {x.to(torch.float64).mean():.3g}"]
    for name, run in (("model", model), ("trace", traced)):
        try:
            with torch.no_grad():
                answer = run(x)
            values = [round(value, 3) for value in answer.flatten().tolist()[:6]]
            lines.append(f"  {name}: shape {tuple(answer.shape)}, {values}")
        except (RuntimeError, IndexError) as error:
            lines.append(f"  {name}: raises {type(error).__name__}")
    return ["\n".join(lines)]

"""The learner's side: the model with control flow on data, the visible cases, the probe and what the check shows."""

# ruff: noqa: SIM108
# Learners read the source of GivenModel, in which the `if` is to be seen as such.

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.export import Dim, export

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, encode

MARGIN = 0.05
"""How far from zero the branch condition of a test input stays: closer, rounding could decide."""

DRAWS = 200
"""How often an input is drawn until one takes the wanted side; then the last one is moved there."""


class GivenModel(nn.Module):
    """A branch on the mean of a hidden layer, then as many refinements as the second input says.

    Takes `x` of shape (batch, width), `float32`, and `steps` of shape (), `int64`, from 0 to `most_steps`.
    """

    def __init__(self, width: int, hidden: int, most_steps: int) -> None:
        super().__init__()
        self.first, self.refine = nn.Linear(width, hidden), nn.Linear(hidden, hidden)
        self.most_steps = most_steps

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, hidden)."""
        hidden = self.first(x)
        level = hidden.mean()
        if level > 0:
            hidden = hidden / level.sqrt()
        else:
            hidden = torch.tanh(hidden)
        for _ in range(int(steps)):
            hidden = hidden + torch.sin(self.refine(hidden))
        return hidden


def visible_cases() -> list[Case]:
    """An example on each side of the branch, with two and with no steps."""
    return [
        Case(
            "the example takes the first side",
            {
                "width": 4,
                "hidden": 6,
                "most_steps": 3,
                "batch": 3,
                "steps": 2,
                "positive": True,
                "bias": True,
                "seed": 0,
            },
        ),
        Case(
            "the example takes the second side",
            {
                "width": 5,
                "hidden": 3,
                "most_steps": 2,
                "batch": 2,
                "steps": 0,
                "positive": False,
                "bias": False,
                "seed": 1,
            },
        ),
    ]


def build(case: Case) -> tuple[GivenModel, torch.Tensor, torch.Tensor]:
    """The given model in eval mode and the inputs with which it is exported."""
    given = case.parameters
    generator = torch.Generator().manual_seed(given["seed"])
    model = GivenModel(given["width"], given["hidden"], given["most_steps"]).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1.0, 1.0, generator=generator)
        if not given["bias"]:
            model.first.bias.zero_()
            model.first.weight.mul_(64).round_().div_(64)  # sums of such weights are exact, in whatever order
        if given.get("weights above zero"):
            model.first.weight.abs_().clamp_(min=1 / 64)
        if given.get("small steps"):  # many large steps would make much of rounding
            model.refine.weight.mul_(0.05)
    x = draw_input(model, given["batch"], given["positive"], generator)
    return model, x, torch.tensor(given["steps"])


def draw_input(model: GivenModel, batch: int, positive: bool, generator: torch.Generator) -> torch.Tensor:
    """An input of shape (batch, width) that takes the wanted side of the branch, clearly."""
    with torch.no_grad():
        for _ in range(DRAWS):
            x = 2 * torch.randn(batch, model.first.in_features, generator=generator)
            level = float(model.first(x).mean())
            if abs(level) > MARGIN and (level > 0) == positive:
                return x
        # A bias can outweigh nearly every draw. The level changes as the mean of the weights lies, by its square.
        mean = model.first.weight.mean(dim=0)
        wanted = 2 * MARGIN if positive else -2 * MARGIN
        return x + (wanted - level) / mean.dot(mean) * mean


def direct_calls(case: Case) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """With what the model is called without being exported: the other side, zeros, and the example last."""
    model, x, steps = build(case)
    generator = torch.Generator().manual_seed(case.parameters["seed"] + 3)
    other = draw_input(model, 2, not case.parameters["positive"], generator)
    most = torch.tensor(model.most_steps)
    return [(other, most), (torch.zeros(3, model.first.in_features), most), (x, steps)]


def probe(case: Case, model_class: Any) -> Evidence:
    """Give the learner's model the given parameters, run it in eager mode, and export it for every batch size."""
    given, x, steps = build(case)
    parameters = case.parameters
    model = model_class(parameters["width"], parameters["hidden"], parameters["most_steps"]).eval()
    state = {name: list(value.shape) for name, value in model.state_dict().items()}
    evidence = Evidence(values={"state": state})
    if state != {name: list(value.shape) for name, value in given.state_dict().items()}:
        return evidence
    model.load_state_dict(given.state_dict())
    try:
        with torch.no_grad():
            outputs = [model(*inputs) for inputs in direct_calls(case)]
    except torch._dynamo.exc.TorchDynamoException as error:  # torch.cond compiles its sides, also outside of export
        return _refused(evidence, error)
    evidence.tensors |= {f"eager{i}": output for i, output in enumerate(outputs) if isinstance(output, torch.Tensor)}
    batch = Dim("batch", min=1, max=64)
    try:
        program = export(model, (x, steps), dynamic_shapes=({0: batch}, None))
    except Exception as error:  # torch.export refuses with many types of its own
        return _refused(evidence, error)
    try:
        evidence.graphs["graph"] = encode(program.module())
    except GraphFormatError as error:
        evidence.values["opaque"] = str(error)[:500]
    return evidence


def _refused(evidence: Evidence, error: Exception) -> Evidence:
    evidence.values["refused"] = f"{type(error).__name__}: {error}"[:6000]
    return evidence


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The exported graph of the learner's model, or why there is none."""
    from autograder.exchange.graph_form import decode
    from fxopt_workbench.pictures import draw

    if "refused" in evidence.values:
        said = [line for line in evidence.values["refused"].splitlines() if line.strip()]
        where = [line for line in said if 'File "' in line and "site-packages" not in line]
        return ["\n".join([f"{case.name}: what torch.export says", said[0][:300], *where[-1:]])]
    return [
        draw(decode(graph), title=f"{case.name}: the graph that your model exports to")
        for graph in evidence.graphs.values()
    ]

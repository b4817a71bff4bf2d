"""The learner's side: the model with graph breaks, the visible cases, the probe and what the check shows."""

# ruff: noqa: SIM108
# Learners read the source of BrokenModel, in which the `if` is to be seen as such.

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, encode

MARGIN = 0.02
"""How far from zero the branch condition of a test input stays: closer, rounding could decide."""


class BrokenModel(nn.Module):
    """Two layers with a scale and a branch in between, written so that Dynamo breaks the graph three times."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, hidden), nn.Linear(hidden, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        hidden = self.first(x)
        print("hidden layer:", tuple(hidden.shape))
        peak = hidden.abs().max().item()
        hidden = hidden / (1.0 + peak)
        if hidden.mean() > 0:
            hidden = torch.relu(hidden)
        else:
            hidden = torch.tanh(hidden)
        return self.second(hidden)


def visible_cases() -> list[Case]:
    """One example input on each side of the branch."""
    return [
        Case("example takes the relu side", {"width": 4, "hidden": 6, "batch": 3, "relu_side": True, "seed": 0}),
        Case("example takes the tanh side", {"width": 5, "hidden": 3, "batch": 2, "relu_side": False, "seed": 1}),
    ]


def build(case: Case) -> tuple[BrokenModel, list[torch.Tensor]]:
    """The given model and two inputs of shape (batch, width): the first on the case's side, the second on the other."""
    given = case.parameters
    generator = torch.Generator().manual_seed(given["seed"])
    model = BrokenModel(given["width"], given["hidden"])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1.0, 1.0, generator=generator)
    sides: dict[bool, torch.Tensor] = {}
    while len(sides) < 2:
        x = 2 * torch.randn(given["batch"], given["width"], generator=generator)
        mean = float(_scaled(model, x).mean())
        if abs(mean) > MARGIN:
            sides[mean > 0] = x
    return model, [sides[given["relu_side"]], sides[not given["relu_side"]]]


def _scaled(model: BrokenModel, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        hidden = model.first(x)
        return hidden / (1.0 + hidden.abs().max())


def probe(case: Case, model_class: Any) -> Evidence:
    """Give the learner's model the given parameters, run it in eager mode, and compile it into one graph."""
    given, inputs = build(case)
    model = model_class(case.parameters["width"], case.parameters["hidden"])
    model.train(case.parameters.get("training", True))
    state = {name: list(value.shape) for name, value in model.state_dict().items()}
    evidence = Evidence(values={"state": state})
    if state != {name: list(value.shape) for name, value in given.state_dict().items()}:
        return evidence
    model.load_state_dict(given.state_dict())
    taken: list[torch.Tensor] = []
    item = torch.Tensor.item

    def noted(tensor: torch.Tensor) -> Any:
        taken.append(tensor)
        return item(tensor)

    with patch.object(torch.Tensor, "item", noted):
        for i, x in enumerate(inputs):
            output = model(x)
            if isinstance(output, torch.Tensor):
                evidence.tensors[f"eager{i}"] = output
    evidence.values["taken out in eager mode"] = len(taken)
    captured: list[torch.fx.GraphModule] = []
    calls: list[tuple[tuple[Any, ...], Any]] = []

    def backend(graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        captured.append(graph_module)

        def run(*arguments: Any) -> Any:
            outputs = graph_module(*arguments)
            calls.append((arguments, outputs))
            return outputs

        return run

    torch._dynamo.reset()
    try:
        result = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)(inputs[0])
    except (torch._dynamo.exc.Unsupported, torch._dynamo.exc.UserError) as error:
        evidence.values["break"] = str(error)[:4000]
        return evidence
    finally:
        torch._dynamo.reset()
    evidence.values["graphs"] = len(captured)
    if len(calls) != 1:
        return evidence
    try:
        evidence.graphs["graph"] = encode(captured[0])
    except GraphFormatError as error:
        evidence.values["opaque"] = str(error)[:500]
        return evidence
    arguments, outputs = calls[0]
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    placeholders: list[str | None] = []
    for i, argument in enumerate(arguments):
        if id(argument) in names:
            placeholders.append(f"parameter {names[id(argument)]}")
        elif argument is inputs[0]:
            placeholders.append("input")
        elif isinstance(argument, torch.Tensor):
            placeholders.append(f"tensor {i}")
            evidence.tensors[f"tensor {i}"] = argument
        else:
            placeholders.append(None)
    evidence.values["placeholders"] = placeholders
    evidence.values["output"] = next((i for i, output in enumerate(outputs) if output is result), None)
    return evidence


def _essence(message: str) -> str:
    """What breaks, and where in the learner's code: the first line of Dynamo's message and its excerpt."""
    what, _, rest = message.partition("\n")
    _, _, where = rest.partition("from user code:\n")
    return f"{what}\n{where.partition('Set TORCHDYNAMO_VERBOSE')[0]}".strip()


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The one graph of the learner's model, or why there is none."""
    from autograder.exchange.graph_form import decode
    from fxopt_workbench.pictures import draw

    exhibits: list[Any] = []
    if "break" in evidence.values:
        exhibits.append(f"{case.name}: what Dynamo says\n{_essence(evidence.values['break'])}")
    for graph in evidence.graphs.values():
        exhibits.append(draw(decode(graph), title=f"{case.name}: the one graph of your model"))
    return exhibits

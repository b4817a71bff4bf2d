"""The learner's side: the model with graph breaks, the visible cases, the probe and what the check shows."""

# ruff: noqa: SIM108
# Learners read the source of BrokenModel, in which the `if` is to be seen as such.

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
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
    with numbers_noted() as taken:
        evidence.tensors |= in_eager_mode(model, inputs)
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
        compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=False)
        result = compiled(inputs[0])
        evidence.values["graphs"] = len(captured)
        compiled(inputs[1])
    except (torch._dynamo.exc.Unsupported, torch._dynamo.exc.UserError) as error:
        evidence.values["break"] = str(error)[:4000]
        return evidence
    finally:
        torch._dynamo.reset()
    evidence.values["graphs for both"] = len(captured)
    if evidence.values["graphs"] != 1 or len(calls) != 2:
        return evidence
    try:
        evidence.graphs["graph"] = encode(with_detach(captured[0]))
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


@contextmanager
def numbers_noted() -> Iterator[list[str]]:
    """How often code outside of PyTorch makes numbers of tensors; printing a tensor does so inside of PyTorch."""
    taken: list[str] = []

    def noting(name: str, original: Any) -> Callable[..., Any]:
        def noted(tensor: torch.Tensor) -> Any:
            if not str(sys._getframe(1).f_globals.get("__name__", "")).startswith("torch"):
                taken.append(name)
            return original(tensor)

        return noted

    with ExitStack() as stack:
        for name in ("item", "tolist", "__float__", "__int__"):
            stack.enter_context(patch.object(torch.Tensor, name, noting(name, getattr(torch.Tensor, name))))
        yield taken


def in_eager_mode(model: nn.Module, inputs: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """What the model returns without `torch.compile`, with the gradients of its parameters and its input, by name.

    Then once more with the first layer at 0, so that the mean is exactly 0. Both sides return 0 there, and their
    gradients differ.
    """
    seen: dict[str, torch.Tensor] = {}
    state = {name: value.clone() for name, value in model.state_dict().items()}
    for i, x in enumerate([*inputs, inputs[0]]):
        if i == len(inputs):
            model.load_state_dict({name: value * (0 if "first" in name else 1) for name, value in state.items()})
        x = x.clone().requires_grad_()
        output = model(x)
        if not isinstance(output, torch.Tensor):
            continue
        seen[f"eager{i}"] = output.detach()
        learned = dict(model.named_parameters()) | {"input": x}
        if output.requires_grad:
            found = torch.autograd.grad(output.square().sum(), list(learned.values()), allow_unused=True)
            pairs = zip(learned, found, strict=True)
            seen |= {f"eager{i} gradient of {name}": gradient for name, gradient in pairs if gradient is not None}
    model.load_state_dict(state)
    return seen


def with_detach(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph with `detach` in the place of `.data`, which Dynamo captures as a function that has no public name."""
    for node in graph_module.graph.nodes:
        if node.op == "call_function" and getattr(node.target, "__name__", "") == "_get_data_attr":
            node.op, node.target = "call_method", "detach"
    return graph_module


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

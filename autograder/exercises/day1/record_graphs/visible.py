"""The learner's side: the models, the visible cases, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import encode

ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
}


class Straight(nn.Module):
    """Two layers and nothing that Dynamo has to stop at: one graph."""

    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width + 1), nn.Linear(width + 1, 3)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        return self.second(self.activation(self.first(x)))


class Interrupted(Straight):
    """The same with one graph break in the middle: two graphs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        hidden = self.activation(self.first(x))
        torch._dynamo.graph_break()
        return self.second(hidden)


class TwiceInterrupted(Straight):
    """The same with two graph breaks: three graphs, the last without parameters."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        hidden = self.activation(self.first(x))
        torch._dynamo.graph_break()
        result = self.second(hidden)
        torch._dynamo.graph_break()
        return result - result.mean(dim=0) * 0.5


MOST_GRAPHS = 12
"""Most graphs of a recorder that travel; no model here is captured in as many."""

MODELS: dict[str, type[Straight]] = {
    "straight": Straight,
    "interrupted": Interrupted,
    "twice_interrupted": TwiceInterrupted,
}


def visible_cases() -> list[Case]:
    """One model that compiles whole and one with a graph break."""
    return [
        Case("no graph break", {"model": "straight", "width": 4, "activation": "relu", "batch": 3, "seed": 0}),
        Case(
            "one graph break",
            {"model": "interrupted", "width": 5, "activation": "tanh", "batch": 2, "seed": 1},
        ),
    ]


def build(case: Case) -> tuple[nn.Module, list[torch.Tensor]]:
    """The case's model in eval mode and two different inputs of shape (batch, width)."""
    given = case.parameters
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(given["seed"])
        model = MODELS[given["model"]](given["width"], given["activation"]).eval()
        inputs = [torch.randn(given["batch"], given["width"]) for _ in range(2)]
    return model, inputs


def probe(case: Case, recorder_class: Any) -> Evidence:
    """Compile the model with the learner's recorder, call it twice, and report what was recorded."""
    model, inputs = build(case)
    recorder = recorder_class()
    returned: list[bool] = []

    def backend(graph_module: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        result = recorder(graph_module, example_inputs)
        returned.append(callable(result))
        return _run_by(result, graph_module)

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        outputs = [compiled(x) for x in inputs]
        recorded_after_two_calls = _as_list(recorder.graphs)
    fresh = recorder_class()
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(model, backend=lambda *given: _run_by(fresh(*given), given[0]))(inputs[0])
    torch._dynamo.reset()
    evidence = Evidence(
        values={
            "returned_callable": returned,
            "recorded": len(recorded_after_two_calls),
            "kinds": [type(graph).__name__ for graph in recorded_after_two_calls],
        },
        tensors={f"output{i}": output for i, output in enumerate(outputs) if isinstance(output, torch.Tensor)},
    )
    for name, graphs in (("graph", recorded_after_two_calls), ("fresh", _as_list(fresh.graphs))):
        for i, graph in enumerate(graphs[:MOST_GRAPHS]):
            if isinstance(graph, torch.fx.GraphModule):
                evidence.graphs[f"{name}{i}"] = encode(graph)
    return evidence


def _run_by(result: Any, graph_module: torch.fx.GraphModule) -> Callable[..., Any]:
    """What is not callable would make Dynamo raise, and hide from the learner what went wrong."""
    return result if callable(result) else graph_module.forward


def _as_list(graphs: Any) -> list[Any]:
    return list(graphs) if isinstance(graphs, (list, tuple)) else []


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graphs that the learner's recorder kept, drawn."""
    from autograder.exchange.graph_form import decode
    from fxopt_workbench.pictures import draw

    return [
        draw(decode(graph), title=f"{case.name}: {name} as your recorder kept it")
        for name, graph in evidence.graphs.items()
    ]

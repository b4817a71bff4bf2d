"""The learner's side: the models, the visible cases, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


class Repeating(Straight):
    """Two equal graphs, then another one: the first layer is applied twice, with a graph break after each."""

    def __init__(self, width: int, activation: str) -> None:
        super().__init__(width, activation)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        x = self.activation(self.first(x))
        torch._dynamo.graph_break()
        x = self.activation(self.first(x))
        torch._dynamo.graph_break()
        return self.second(x)


class Counting(Straight):
    """A model that writes: it counts its calls in a buffer, and what it returns depends on the count."""

    count: torch.Tensor

    def __init__(self, width: int, activation: str) -> None:
        super().__init__(width, activation)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        self.count.add_(1.0)
        return super().forward(x) * self.count.clone()


MOST_GRAPHS = 12
"""Most graphs of a recorder that travel; no model here is captured in as many."""

MODELS: dict[str, type[Straight]] = {
    "straight": Straight,
    "interrupted": Interrupted,
    "twice_interrupted": TwiceInterrupted,
    "repeating": Repeating,
    "counting": Counting,
}


def visible_cases() -> list[Case]:
    """A model that compiles whole, one with a graph break, one with two equal graphs, and one that writes."""
    return [
        Case("no graph break", {"model": "straight", "width": 4, "activation": "relu", "batch": 3, "seed": 0}),
        Case(
            "one graph break",
            {"model": "interrupted", "width": 5, "activation": "tanh", "batch": 2, "seed": 1},
        ),
        Case("two equal graphs", {"model": "repeating", "width": 4, "activation": "sigmoid", "batch": 3, "seed": 3}),
        Case("a model that writes", {"model": "counting", "width": 3, "activation": "relu", "batch": 4, "seed": 2}),
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
    handed: list[torch.fx.GraphModule] = []
    modes_kept: list[bool] = []
    at_once: list[bool] = []

    def backend(graph_module: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        handed.append(graph_module)
        modes = [module.training for module in graph_module.modules()]
        result = recorder(graph_module, example_inputs)
        at_once.append(any(graph_module is graph for graph in _as_list(recorder.graphs)))
        modes_kept.append([module.training for module in graph_module.modules()] == modes)
        returned.append(callable(result))
        return _run_by(result, graph_module)

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    seen = of_calls(model, compiled, inputs)
    recorded_after_two_calls = _as_list(recorder.graphs)
    fresh = recorder_class()
    held = len(_as_list(fresh.graphs))
    torch._dynamo.reset()
    with torch.no_grad():
        untrained = torch.compile(model, backend=lambda *given: _run_by(fresh(*given), given[0]))(inputs[0])
    torch._dynamo.reset()
    evidence = Evidence(
        values={
            "returned_callable": returned,
            "recorded": len(recorded_after_two_calls),
            "held": held,
            "inference": isinstance(untrained, torch.Tensor) and untrained.is_inference(),
            "modes kept": modes_kept,
            "at once": at_once,
            "kinds": [type(graph).__name__ for graph in recorded_after_two_calls],
            "handed": [any(graph is other for other in handed) for graph in recorded_after_two_calls[:MOST_GRAPHS]],
        },
        tensors=seen,
    )
    for name, graphs in (("graph", recorded_after_two_calls), ("fresh", _as_list(fresh.graphs))):
        for i, graph in enumerate(graphs[:MOST_GRAPHS]):
            if isinstance(graph, torch.fx.GraphModule):
                evidence.graphs[f"{name}{i}"] = encode(graph)
    return evidence


def of_calls(
    model: nn.Module, compiled: Callable[[torch.Tensor], Any], inputs: list[torch.Tensor]
) -> dict[str, torch.Tensor]:
    """What the calls of a model return, the gradients of its parameters, and its buffers afterwards, by name."""
    outputs = [compiled(x) for x in inputs]
    seen = {f"output{i}": output.detach() for i, output in enumerate(outputs) if isinstance(output, torch.Tensor)}
    trained = [output for output in outputs if isinstance(output, torch.Tensor) and output.requires_grad]
    if trained:
        parameters = dict(model.named_parameters())
        loss = torch.stack([output.square().sum() * (i + 1) for i, output in enumerate(trained)]).sum()
        found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        pairs = zip(parameters, found, strict=True)
        seen |= {f"gradient {name}": gradient for name, gradient in pairs if gradient is not None}
    return seen | {f"buffer {name}": value.detach().clone() for name, value in model.named_buffers()}


def _run_by(result: Any, graph_module: torch.fx.GraphModule) -> Callable[..., Any]:
    """What is not callable would make Dynamo raise, and hide from the learner what went wrong."""
    return result if callable(result) else graph_module.forward


def _as_list(graphs: Any) -> list[Any]:
    return list(graphs) if isinstance(graphs, Sequence) and not isinstance(graphs, str) else []


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graphs that the learner's recorder kept, drawn."""
    from autograder.exchange.graph_form import decode
    from fxopt_workbench.pictures import draw

    kept = [graph for name, graph in evidence.graphs.items() if name.startswith("graph")]
    return [
        draw(decode(graph), title=f"{case.name}: graph {number} of {len(kept)} that your recorder kept")
        for number, graph in enumerate(kept, start=1)
    ]

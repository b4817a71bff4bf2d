"""The learner's side: the models, the visible cases, the probe and what the check shows."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
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
    """The same with two graph breaks: three graphs, the last without parameters.

    That one draws. What it draws is always 1, so that random numbers decide nothing; but the stream moves on.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        hidden = self.activation(self.first(x))
        torch._dynamo.graph_break()
        result = self.second(hidden)
        torch._dynamo.graph_break()
        return result - result.mean(dim=0) * torch.bernoulli(torch.ones(3)) * 0.5


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


class Overwriting(Straight):
    """A model of three graphs: the second overwrites what it is handed, and the third reads that.

    Args:
        factor: what is handed on is multiplied with; 1.0 leaves it as it was, as where the write is lost.
    """

    def __init__(self, width: int, activation: str, factor: float = 3.0) -> None:
        super().__init__(width, activation)
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        hidden = self.first(x)
        torch._dynamo.graph_break()
        offset = hidden.mean()
        hidden.mul_(self.factor)
        torch._dynamo.graph_break()
        return self.second(self.activation(hidden)) + offset


MOST_GRAPHS = 12
"""Most graphs of a recorder that travel; no model here is captured in as many."""

MODELS: dict[str, type[Straight]] = {
    "straight": Straight,
    "interrupted": Interrupted,
    "twice_interrupted": TwiceInterrupted,
    "repeating": Repeating,
    "counting": Counting,
    "overwriting": Overwriting,
}


def visible_cases() -> list[Case]:
    """A model that compiles whole, one with a graph break, one with two equal graphs, and one that writes."""
    return [
        Case(
            "no graph break",
            {"model": "straight", "width": 4, "activation": "relu", "batch": 3, "seed": 0, "let go": True},
        ),
        Case(
            "one graph break",
            {"model": "interrupted", "width": 5, "activation": "tanh", "batch": 2, "seed": 1},
        ),
        Case("two equal graphs", {"model": "repeating", "width": 4, "activation": "sigmoid", "batch": 3, "seed": 3}),
        Case("a model that writes", {"model": "counting", "width": 3, "activation": "relu", "batch": 4, "seed": 2}),
    ]


def build(case: Case) -> tuple[nn.Module, list[torch.Tensor]]:
    """The case's model in eval mode and two different inputs of shape (batch, width), the second perhaps larger.

    For a larger one Dynamo captures anew.
    """
    given = case.parameters
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(given["seed"])
        model = MODELS[given["model"]](given["width"], given["activation"]).eval()
        batches = given["batch"], given.get("second_batch", given["batch"])
        inputs = [torch.randn(batch, given["width"], requires_grad=True) for batch in batches]
    return model, inputs


def probe(case: Case, recorder_class: Any) -> Evidence:
    """Compile the model with the learner's recorder, call it three times, and report what was recorded.

    A fresh recorder then sees the model once more, without gradients. Of its graphs the probe keeps none: where the
    case says `let go`, they are asked for when nobody else holds them any more. Where it says `evaluated`, they come in
    evaluation mode.
    """
    model, inputs = build(case)
    recorder = recorder_class()
    returned: list[bool] = []
    handed: list[torch.fx.GraphModule] = []
    modes: list[list[bool]] = []
    at_once: list[bool] = []
    drew: list[bool] = []

    def backend(graph_module: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        handed.append(graph_module)
        modes.append(_modes(graph_module))
        stream = torch.get_rng_state()
        result = recorder(graph_module, example_inputs)
        drew.append(not torch.equal(stream, torch.get_rng_state()))
        at_once.append(any(graph_module is graph for graph in _as_list(recorder.graphs)))
        returned.append(callable(result))
        return _run_by(result, graph_module)

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend, dynamic=False)
    seen = of_calls(model, compiled, inputs)
    recorded_after_calls = _as_list(recorder.graphs)
    modes_kept = [_modes(graph) == before for graph, before in zip(handed, modes, strict=True)]
    fresh = recorder_class()
    held = len(_as_list(fresh.graphs))
    fresh_modes: list[list[bool]] = []

    def fresh_backend(graph_module: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        graph_module.train(not case.parameters.get("evaluated", False))
        fresh_modes.append(_modes(graph_module))
        return _run_by(fresh(graph_module, example_inputs), graph_module)

    torch._dynamo.reset()
    with torch.no_grad():
        untrained = torch.compile(model, backend=fresh_backend)(inputs[0])
    torch._dynamo.reset()
    if case.parameters.get("let go"):
        gc.collect()
    kept = _as_list(fresh.graphs)
    modes_kept += [
        isinstance(graph, torch.fx.GraphModule) and _modes(graph) == before
        for graph, before in zip(kept, fresh_modes, strict=False)
    ]
    if isinstance(untrained, torch.Tensor):
        seen["output without gradients"] = untrained.detach()
    left = _as_list(recorder.graphs)
    evidence = Evidence(
        values={
            "returned_callable": returned,
            "recorded": len(recorded_after_calls),
            "kind": type(recorder.graphs).__name__ if not _is_sequence(recorder.graphs) else "sequence",
            "held": held,
            "kept by the fresh one": len(kept),
            "left": sum(one is other for one, other in zip(recorded_after_calls, left, strict=False)),
            "inference": isinstance(untrained, torch.Tensor) and untrained.is_inference(),
            "trained": isinstance(untrained, torch.Tensor) and untrained.requires_grad,
            "drew": drew,
            "modes kept": modes_kept,
            "at once": at_once,
            "kinds": [type(graph).__name__ for graph in recorded_after_calls],
            "handed": [any(graph is other for other in handed) for graph in recorded_after_calls[:MOST_GRAPHS]],
        },
        tensors=seen,
    )
    for name, graphs in (("graph", recorded_after_calls), ("fresh", kept)):
        for i, graph in enumerate(graphs[:MOST_GRAPHS]):
            if isinstance(graph, torch.fx.GraphModule):
                evidence.graphs[f"{name}{i}"] = encode(graph)
    return evidence


def of_calls(
    model: nn.Module, compiled: Callable[[torch.Tensor], Any], inputs: list[torch.Tensor]
) -> dict[str, torch.Tensor]:
    """What the calls of a model return, on each input and on the first again; gradients, and buffers afterwards."""
    outputs = [compiled(x) for x in (*inputs, inputs[0])]
    seen = {f"output{i}": output.detach() for i, output in enumerate(outputs) if isinstance(output, torch.Tensor)}
    trained = [output for output in outputs if isinstance(output, torch.Tensor) and output.requires_grad]
    if trained:
        learned = dict(model.named_parameters()) | {f"of input {i}": x for i, x in enumerate(inputs)}
        loss = torch.stack([output.square().sum() * (i + 1) for i, output in enumerate(trained)]).sum()
        found = torch.autograd.grad(loss, list(learned.values()), allow_unused=True)
        pairs = zip(learned, found, strict=True)
        seen |= {f"gradient {name}": gradient for name, gradient in pairs if gradient is not None}
    return seen | {f"buffer {name}": value.detach().clone() for name, value in model.named_buffers()}


def _modes(graph_module: torch.fx.GraphModule) -> list[bool]:
    """Which of the modules are in training mode."""
    return [module.training for module in graph_module.modules()]


def _run_by(result: Any, graph_module: torch.fx.GraphModule) -> Callable[..., Any]:
    """What is not callable would make Dynamo raise, and hide from the learner what went wrong."""
    return result if callable(result) else graph_module.forward


def _is_sequence(graphs: Any) -> bool:
    """Whether its items can be counted and asked for by number, as those of a list; of any class."""
    counted = hasattr(graphs, "__len__") and hasattr(graphs, "__getitem__")
    return counted and not isinstance(graphs, (str, Mapping, type))


def _as_list(graphs: Any) -> list[Any]:
    return [graphs[i] for i in range(len(graphs))] if _is_sequence(graphs) else []


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graphs that the learner's recorder kept, drawn."""
    from autograder.exchange.graph_form import decode
    from fxopt_workbench.pictures import draw

    kept = [graph for name, graph in evidence.graphs.items() if name.startswith("graph")]
    return [
        draw(decode(graph), title=f"{case.name}: graph {number} of {len(kept)} that your recorder kept")
        for number, graph in enumerate(kept, start=1)
    ]

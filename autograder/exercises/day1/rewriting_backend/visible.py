"""The learner's side: models that use GELU in every way, the visible cases, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as functional
from torch import nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import encode

SIGNATURE = 3.0
"""What the stand-in compiler multiplies every output with, so that one sees whether its result is what ran."""


class Compiled:
    """What the stand-in compiler makes: it can be called, and says that it is empty, as a container of nothing does."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        self.forward = forward

    def __call__(self, *arguments: Any) -> list[Any]:
        """The outputs of the graph, multiplied."""
        return [output * SIGNATURE for output in self.forward(*arguments)]

    def __len__(self) -> int:
        """How many caches it holds, say: nothing that tells whether it is there."""
        return 0


def read_by_several(x: torch.Tensor) -> torch.Tensor:
    """A GELU that one node reads within a list, and another by name."""
    once = functional.gelu(x)
    return torch.stack([once, torch.sigmoid(input=once)]).sum(dim=0)


FORMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exact": functional.gelu,
    "exact, said so": lambda x: functional.gelu(x, approximate="none"),
    "exact module": nn.GELU(),
    "exact, by keyword": lambda x: functional.gelu(input=x),
    "exact, read by several": read_by_several,
    "exact of exact": lambda x: functional.gelu(functional.gelu(x)),
    "tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
}
"""Activations by name; the exact ones are to be rewritten."""


MOST_GRAPHS = 8
"""Most graphs that travel; no model here is captured in as many."""


class Stack(nn.Module):
    """Linear layers with a given activation after each, past which a copy of its input goes.

    Args:
        widths: of the layers, one more than activations.
        activations: names in `FORMS`.
        breaks: after how many layers the graph breaks; 0 for nowhere.
        misleading: whether Python variables are called like the function that is sought, and like another; so is the
            attribute that holds the layers, and with it what their weights are called as inputs of the graph.
        writes: whether it counts its calls in a buffer, which nobody reads.
        overwrites: whether what an activation read is overwritten before anybody reads its result.
        bare: whether an activation's result is handed on as it is.
        idle: whether there are operations that write nothing and whose results nobody reads.
    """

    count: torch.Tensor

    def __init__(
        self,
        widths: Sequence[int],
        activations: Sequence[str],
        breaks: int = 0,
        misleading: bool = False,
        writes: bool = False,
        overwrites: bool = False,
        bare: bool = False,
        idle: bool = False,
    ) -> None:
        super().__init__()
        self.held_as = "gelu" if misleading else "layers"
        self.add_module(self.held_as, nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths)))
        self.activations = tuple(activations)
        self.breaks, self.misleading, self.writes = breaks, misleading, writes
        self.overwrites, self.bare, self.idle = overwrites, bare, idle
        self.register_buffer("count", torch.zeros(1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, first width) to (batch, last width)."""
        first = self.breaks or len(self.activations)
        x = self._part(x, 0, first)
        if self.breaks:
            # Not within the loop: Dynamo would give the whole function up, and capture what it calls.
            torch._dynamo.graph_break()
            x = self._part(x, first, len(self.activations))
        return x

    def _part(self, x: torch.Tensor, start: int, stop: int) -> torch.Tensor:
        """Some of the layers, one after the other."""
        layers = getattr(self, self.held_as)
        for number in range(start, stop):  # a slice of a ModuleList is a new module, whose making would be captured
            name = self.activations[number]
            hidden = layers[number](x)
            scaled = hidden * 2.0
            past = hidden - 1.0  # stands between the activation and what it reads
            if self.idle:
                torch.sigmoid(scaled)
            if self.misleading:
                gelu = torch.relu(scaled)
                relu = FORMS[name](scaled)
                x = relu + past - gelu
            elif self.overwrites:
                gelu = FORMS[name](scaled)
                scaled.neg_()
                x = gelu + past
            elif self.bare:
                x = FORMS[name](scaled)
            else:
                x = FORMS[name](scaled) + past
            if self.writes:
                self.count.add_(1.0)
        return x


def visible_cases() -> list[Case]:
    """A stack of exact GELUs only, and one in which other activations must be left alone."""
    return [
        Case(
            "three exact GELUs",
            {"widths": [5, 7, 6, 4], "activations": ["exact", "exact module", "exact"], "batch": 3, "seed": 0},
        ),
        Case(
            "GELUs among other activations",
            {
                "widths": [4, 6, 5, 3, 7, 2],
                "activations": ["tanh", "exact, said so", "exact, by keyword", "relu", "exact module"],
                "batch": 2,
                "seed": 1,
            },
        ),
        Case(
            "two graphs, misleading names, and a write",
            {
                "widths": [4, 5, 3],
                "activations": ["exact", "exact, said so"],
                "batch": 3,
                "seed": 2,
                "breaks": 1,
                "misleading": True,
                "writes": True,
            },
        ),
    ]


def build(case: Case) -> tuple[Stack, list[torch.Tensor]]:
    """The case's model in eval mode, and two inputs of shape (batch, first width), the second perhaps larger.

    For a larger one Dynamo captures anew, and the graphs read like those of before.
    """
    given = case.parameters
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(given["seed"])
        model = Stack(
            given["widths"],
            given["activations"],
            given.get("breaks", 0),
            given.get("misleading", False),
            given.get("writes", False),
            given.get("overwrites", False),
            given.get("bare", False),
            given.get("idle", False),
        ).eval()
        batches = given["batch"], given.get("second_batch", given["batch"])
        inputs = [torch.randn(batch, given["widths"][0]) * 2 for batch in batches]
    return model, inputs


def probe(case: Case, make_backend: Any) -> Evidence:
    """Compile the model with the learner's backend; a stand-in takes the place of Inductor and records."""
    model, inputs = build(case)
    evidence = Evidence({"another": False})
    received: list[list[list[int]] | None] = []
    made: list[Callable[..., Any]] = []
    given: list[Any] = []
    very_same: list[bool] = []

    def compile_inner(graph_module: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        if len(received) < MOST_GRAPHS:
            evidence.graphs[f"received{len(received)}"] = encode(graph_module)
        received.append(_shapes(example_inputs))
        very_same.append(_are(example_inputs, given))
        # What the handed-over module really computes is its compiled `forward`, which may lag behind its graph.
        run = Compiled(graph_module.forward)
        made.append(run)
        return run

    def compile_for_another(graph_module: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        evidence.values["another"] = True
        return compile_inner(graph_module, example_inputs)

    torch._dynamo.reset()
    backend = make_backend(compile_inner)
    make_backend(compile_for_another)  # a backend of its own, which the first has nothing to do with
    returned: list[bool] = []
    wrapped: list[bool] = []

    def recording(graph_module: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Callable[..., Any]:
        # Dynamo's own module writes its code when it first runs; a plain one has it already, as most graph modules do.
        graph_module = torch.fx.GraphModule(graph_module, graph_module.graph)
        given[:] = example_inputs
        result = backend(graph_module, example_inputs)
        returned.append(callable(result))
        wrapped.append(not any(result is run for run in made))
        return result if callable(result) else graph_module.forward

    compiled = torch.compile(model, backend=recording, dynamic=False)
    try:
        with torch.no_grad():
            outputs = [compiled(x) for x in inputs]
    except TypeError as error:
        if not received:
            raise
        # The rewritten graph cannot run: a call lacks its argument. The judge looks for it in the graph.
        evidence.values["failed"] = str(error)[:500]
        outputs = []
    finally:
        torch._dynamo.reset()
    evidence.values |= {"returned_callable": returned, "received": received, "very same": very_same, "wrapped": wrapped}
    evidence.tensors = {f"output{i}": output for i, output in enumerate(outputs)} | {"count": model.count.clone()}
    return evidence


def _shapes(example_inputs: Any) -> list[list[int]] | None:
    """Shapes of the tensors that the compiler was handed; `None` for something else than tensors."""
    if not isinstance(example_inputs, Sequence) or not all(isinstance(value, torch.Tensor) for value in example_inputs):
        return None
    return [list(value.shape) for value in example_inputs]


def _are(example_inputs: Any, given: list[Any]) -> bool:
    """Whether these are the very inputs that were given, and not copies of them."""
    if not isinstance(example_inputs, Sequence) or len(example_inputs) != len(given):
        return False
    return all(one is other for one, other in zip(example_inputs, given, strict=True))


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph as Dynamo captured it beside what reached the compiler behind the learner's backend."""
    from autograder.exchange.graph_form import decode
    from autograder.learner_side.exhibits import before_and_after
    from fxopt_core.capture import capture

    model, inputs = build(case)
    with torch.no_grad():
        before = capture(model, (inputs[0],)).graphs
    return [
        exhibit
        for graph, theirs in zip(before, evidence.graphs.values(), strict=False)
        for exhibit in before_and_after(case.name, graph, decode(theirs))
    ]

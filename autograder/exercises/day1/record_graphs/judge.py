"""What a right recorder is: it keeps every graph as it was captured, and the compiled model still computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import EncodedGraph, run
from autograder.exercises.day1.record_graphs.visible import ACTIVATIONS, MODELS, build

MISCONCEPTIONS = {
    "returned nothing callable": (
        "Your backend must return something callable: Dynamo calls it in place of the Python code that it replaced. "
        "Recording is a side effect; `return graph_module.forward` hands the graph back unchanged."
    ),
    "nothing recorded": (
        "Your recorder's `graphs` is empty after the model ran: append each graph module to `self.graphs`."
    ),
    "only one graph kept": (
        "A model with a graph break is captured in several graphs, one call of your backend each. "
        "You kept only one of them: append to a list instead of overwriting."
    ),
    "shared between recorders": (
        "A new recorder already holds the graphs of another one: `graphs` is an attribute of the class, shared by all "
        "instances. Create the list in `__init__`."
    ),
    "recorded when running": (
        "You have more graphs than were captured: you record when the compiled code runs, not when it is compiled. "
        "A backend is called once for each graph; what it returns is called each time the model runs."
    ),
    "not graph modules": (
        "`graphs` must hold the graph modules themselves: text or a bare `Graph` cannot be run or transformed any more."
    ),
    "example outputs baked in": (
        "The compiled model gives the same output for different inputs: you ran the graph once on the example inputs "
        "and return that result. Return the function, not its result."
    ),
    "model computes something else": "The compiled model no longer computes what the model computes in eager mode.",
    "other graph": "A graph that you recorded does not compute what the captured graph computes.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Each model once, in other widths, with other activations."""
    return [
        Case(
            f"hidden {name}",
            {
                "model": name,
                "width": random.randint(3, 9),
                "activation": random.choice(sorted(ACTIVATIONS)),
                "batch": random.randint(2, 5),
                "seed": random.randrange(2**31),
            },
        )
        for name in MODELS
    ]


def capture(case: Case) -> tuple[list[tuple[torch.fx.GraphModule, list[Any]]], list[torch.Tensor]]:
    """The judge's own capture: graphs with their example inputs, and the eager outputs."""
    model, inputs = build(case)
    captured: list[tuple[torch.fx.GraphModule, list[Any]]] = []

    def backend(graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        captured.append((graph_module, example_inputs))
        return graph_module.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    with torch.no_grad():
        expected = [model(x) for x in inputs]
        compiled(inputs[0])
    return captured, expected


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    captured, expected = capture(case)
    values = evidence.values
    recorded, kinds = values["recorded"], values["kinds"]
    kept, again = (sorted(n for n in evidence.graphs if n.startswith(name)) for name in ("graph", "fresh"))
    if not all(values["returned_callable"]):
        yield "returned nothing callable", ""
        return
    if kept and len(again) >= len(kept) + len(captured):
        yield "shared between recorders", f"(a fresh recorder holds {len(again)} graphs of a model of {len(captured)})"
        return
    outputs = [evidence.tensors.get(f"output{i}") for i in range(len(expected))]
    if not all(agrees(output, want) for output, want in zip(outputs, expected, strict=True)):
        first, second = outputs
        same = first is not None and second is not None and torch.equal(first, second)
        yield ("example outputs baked in" if same else "model computes something else"), ""
        return
    if recorded == 0:
        yield "nothing recorded", ""
        return
    if any(kind != "GraphModule" and "GraphModule" not in kind for kind in kinds):
        yield "not graph modules", f"(found: {', '.join(sorted(set(kinds)))})"
        return
    if recorded < len(captured):
        yield "only one graph kept", f"(captured {len(captured)}, kept {recorded})"
        return
    if recorded > len(captured) or len(kept) > len(captured):
        yield "recorded when running", f"(captured {len(captured)}, kept {recorded})"
        return
    for name, found in (("graph", kept), ("fresh", again)):
        if len(found) > len(captured):
            yield "other graph", f"(a fresh recorder holds {len(found)})"
            return
        for i, (graph_module, example_inputs) in enumerate(captured):
            theirs = evidence.graphs.get(f"{name}{i}")
            if theirs is None or not _same_function(theirs, graph_module, example_inputs):
                yield "other graph", f"(graph number {i})"
                return


def _same_function(theirs: EncodedGraph, ours: torch.fx.GraphModule, example_inputs: list[Any]) -> bool:
    generator = torch.Generator().manual_seed(len(example_inputs))
    fresh = [torch.randn(value.shape, generator=generator) for value in example_inputs]
    wanted = ours(*fresh)
    try:
        found = run(theirs, fresh)
    except (TypeError, RuntimeError):
        # A graph of other inputs or other shapes: certainly not the captured one.
        return False
    if not isinstance(found, (list, tuple)) or len(found) != len(wanted):
        return False
    return all(agrees(a, b) for a, b in zip(found, wanted, strict=True))

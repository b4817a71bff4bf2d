"""What is right: the true number of compilations, the same when asked again; then one graph that serves every batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import run
from autograder.exercises.day1.stop_recompilations.visible import BatchAware, build

MISCONCEPTIONS = {
    "counted calls": (
        "You counted how often the model ran. A backend is called once for each *compilation*; what it returns is "
        "called for each run. Count in the backend."
    ),
    "counted shapes": (
        "You counted shapes. Dynamo does not compile for each shape: when a size changes for the first time it "
        "compiles once more, with a symbol in its place, and that graph serves the following sizes."
    ),
    "recompilations only": "You left out the first compilation: it counts, too.",
    "earlier runs leak in": (
        "Asked a second time, your count differs: Dynamo remembers what it compiled, and which sizes have varied. "
        "Begin with `torch._dynamo.reset()`."
    ),
    "wrong count": "That is not how often Dynamo compiled the model for these inputs.",
    "backend not used": (
        "Nothing reached the backend that `compile_once` was given: either nothing is compiled, or by another backend."
    ),
    "wrong dimension": (
        "You declared a dimension as dynamic that the model needs fixed (the width of the layer). The batch is "
        "dimension 0."
    ),
    "still compiles again": (
        "More than one graph reached the backend: the first one was made for one batch size only. Say beforehand that "
        "the size varies (`dynamic=True`, or `torch._dynamo.mark_dynamic`)."
    ),
    "frozen batch size": (
        "Your one graph holds the batch size of the first input as a number: for other batches it computes something "
        "else, or fails."
    ),
    "results changed": (
        "The compiled model returns something else than the model: every row of the input must take part, and no row "
        "may be added (this model looks at the whole batch)."
    ),
}


def hidden_cases(random: Random) -> list[Case]:
    """Other widths and other sequences of batch sizes; 0 and 1 are left out, since Dynamo treats them apart."""
    cases = []
    for number in range(2):
        sizes = random.sample(range(2, 10), k=3)
        batches = [sizes[0], sizes[0], sizes[1], sizes[1], sizes[2], *random.choices(sizes, k=random.randint(1, 3))]
        parameters = {"width": random.randint(11, 19), "batches": batches, "seed": random.randrange(2**31)}
        cases.append(Case(f"hidden {number}", parameters))
    return cases


def true_count(model: BatchAware, inputs: list[torch.Tensor]) -> int:
    """How often Dynamo compiles the model for these inputs, from a clean state."""
    compiled = 0

    def backend(graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        nonlocal compiled
        compiled += 1
        return graph_module.forward

    torch._dynamo.reset()
    function = torch.compile(model, backend=backend)
    with torch.no_grad():
        for x in inputs:
            function(x)
    torch._dynamo.reset()
    return compiled


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    model, inputs = build(case)
    yield from _judge_count(case, evidence.values["counts"], true_count(model, inputs))
    yield from _judge_compiling(case, evidence, model, inputs)


def _judge_count(case: Case, counts: list[int], expected: int) -> Iterator[tuple[str, str]]:
    batches = case.parameters["batches"]
    count = counts[0]
    if count == expected:
        if counts[1] != expected:
            yield "earlier runs leak in", f"(first {counts[0]}, then {counts[1]})"
        return
    names = {len(batches): "counted calls", len(set(batches)): "counted shapes", expected - 1: "recompilations only"}
    yield names.get(count, "wrong count"), f"(counted {count}, compiled {expected})"


def _judge_compiling(
    case: Case, evidence: Evidence, model: BatchAware, inputs: list[torch.Tensor]
) -> Iterator[tuple[str, str]]:
    values = evidence.values
    if values["wrong_dimension"]:
        yield "wrong dimension", ""
        return
    if values["compilations"] == 0 or "graph" not in evidence.graphs:
        yield "backend not used", ""
        return
    for number, x in enumerate(inputs):
        output = evidence.tensors.get(f"output{number}")
        with torch.no_grad():
            if not agrees(output, model(x), absolute=1e-6):
                yield "results changed", f"(batch size {x.shape[0]})"
                return
    if values["compilations"] > 1:
        yield "still compiles again", f"({values['compilations']} graphs)"
        return
    if not _serves_other_batches(case, evidence, model):
        yield "frozen batch size", ""


def _serves_other_batches(case: Case, evidence: Evidence, model: BatchAware) -> bool:
    """Run the learner's graph on batch sizes that it has never seen."""
    generator = torch.Generator().manual_seed(case.parameters["seed"] % 1000)
    parameters = dict(model.named_parameters())
    for batch in {8, 10, 12} - set(case.parameters["batches"]):
        x = torch.randn(batch, case.parameters["width"], generator=generator)
        arguments: list[Any] = []
        for role in evidence.values["placeholders"]:
            if role in parameters:
                arguments.append(parameters[role].detach())
            elif role.startswith("size "):
                arguments.append(x.shape[int(role.removeprefix("size "))])
            else:
                arguments.append(x)
        try:
            outputs = run(evidence.graphs["graph"], arguments)
        except (RuntimeError, TypeError):
            return False
        with torch.no_grad():
            wanted = model(x)
        if not any(agrees(y, wanted, absolute=1e-6) for y in outputs):
            return False
    return True

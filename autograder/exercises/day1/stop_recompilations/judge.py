"""What is right: the true number of compilations, the same when asked again; then one graph that serves every batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import run
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import once_a_case
from autograder.exercises.day1.stop_recompilations.visible import (
    MODELS,
    BatchAware,
    build,
    build_counted,
    change_weights,
    counted,
    gradients,
)
from autograder.exercises.explaining import compared

MISCONCEPTIONS = {
    "counted calls": (
        "Your count is how often the model ran, once for each of its graphs. Dynamo compiles only when no compiled "
        "graph fits: count in the backend, which is called once for each *compilation*, and reset once, before the "
        "first call."
    ),
    "counted shapes": (
        "You counted shapes. Dynamo does not compile for each shape: when a size changes for the first time it "
        "compiles once more, with a symbol in its place, and that graph serves the following sizes."
    ),
    "foresaw two": (
        "You foresaw the count, with two compilations at most, instead of measuring it. How often Dynamo compiles "
        "depends on the model, too: on graph breaks, and on what it asks about the batch."
    ),
    "one graph a model": (
        "A model with a graph break is captured in several graphs. Each of them is compiled, and each compilation "
        "counts."
    ),
    "recompilations only": "You left out the first compilation: it counts, too.",
    "earlier runs leak in": (
        "Asked a second time, after somebody else compiled the model, your count differs: Dynamo remembers what it "
        "compiled, and which sizes have varied. *Begin* with `torch._dynamo.reset()`."
    ),
    "wrong count": "That is not how often Dynamo compiled the model when it was called on these inputs in turn.",
    "backend not used": (
        "Nothing reached the backend that `compile_once` was given: either nothing is compiled, or by another backend."
    ),
    "wrong dimension": (
        "You declared a dimension as dynamic that the model needs fixed (the width of the layer). The batch is "
        "dimension 0."
    ),
    "limited batch size": (
        "You declared bounds for the batch size (`min`, `max`), and a later batch lies outside them. Every size from 2 "
        "up must be served: declare none."
    ),
    "still compiles again": (
        "More than one graph reached the backend: the first one was made for one batch size only. Say beforehand that "
        "the size varies (`dynamic=True`, or `torch._dynamo.mark_dynamic`)."
    ),
    "thrown away for another": (
        "After `compile_once` was called for another model, the first one was compiled again: its graph had been "
        "thrown away. `torch._dynamo.reset()` forgets what *everybody* compiled, so leave it to `count_compilations`."
    ),
    "frozen batch size": (
        "Your one graph holds the batch size of the first input as a number: for other batches it computes something "
        "else, or fails. Have it traced with a size that varies (`dynamic=True`, or `torch._dynamo.mark_dynamic`)."
    ),
    "configuration changed": (
        "After `compile_once` was called, `count_compilations` counts something else: you changed Dynamo's "
        "configuration for everybody. Say it to `torch.compile`, mark the inputs, or use `torch._dynamo.config.patch` "
        "around a call."
    ),
    "gradients switched on": (
        "Called under `no_grad`, the compiled model records for autograd all the same. The model itself does not: "
        "leave the modes of autograd to the caller."
    ),
    "results remembered": (
        "After a step of training, called on an input that it has seen, the compiled model returns something else than "
        "the model. You keep results or weights of before: run the graph in each call."
    ),
    "ran without the graph": (
        "Some calls ran without the compiled graph: it has to serve every batch size from 2 up, with no limit above."
    ),
    "model copied": (
        "You compiled a copy of the model: the graph works with parameters of its own, which stay behind when the "
        "model is trained on. Compile the model itself."
    ),
    "gradients lost": (
        "The compiled model returns the right values, but its gradients are missing or others: leave `no_grad` and "
        "`detach` to those who call it."
    ),
    "other mode": (
        "The compiled model computes what the model computes in the other mode: `train()` and `eval()` are for those "
        "who call it. Compile the model in the mode in which it comes."
    ),
    "results changed": (
        "The compiled model returns something else than the model: every row of the input must take part, and no row "
        "may be added (this model looks at the whole batch)."
    ),
}


UNNAMED = ("wrong count",)

GRAPHS = {"interrupted": 2, "repeating": 3, "unchanging": 0}
"""How many graphs a model is captured in, where it is not one."""

FIXED = (
    (
        "small and large batches",
        [2, 3, 2, 70_000],
        [["aware", [1, 3, 1, 4]], ["aware", []], ["interrupted", [4]], ["aware", [6, 4, 1]]],
    ),
    (
        "models that ask",
        [9, 2],
        [
            ["branching", [3, 6, 4, 8]],
            ["unrolled", [2, 3, 4, 3]],
            ["unchanging", [2, 3]],
            ["alternating", [3, 3, 3]],
            ["repeating", [3, 3]],
            ["guarded", [3, 3, 3, 3, 3, 3]],
        ],
    ),
)
"""Batch sizes for `compile_once`, and models with batch sizes for `count_compilations`."""


def hidden_cases(random: Random) -> list[Case]:
    """Other models, the sizes 0 and 1 that Dynamo treats apart (counted only); then random sequences of batch sizes."""
    cases = []
    for name, batches, more in FIXED:
        width = random.randint(11, 19)  # a batch may be as large as the width, too, but not the first
        parameters = {"width": width, "batches": [*batches, width], "seed": random.randrange(2**31)}
        flags = dict.fromkeys(("training", "learned inputs"), batches[0] > 2)
        cases.append(Case(f"hidden {name}", parameters | {"counted": more} | flags))
    sizes = random.sample(range(2, 10), k=3)
    batches = [sizes[0], sizes[0], sizes[1], sizes[1], sizes[2], *random.choices(sizes, k=random.randint(1, 3))]
    parameters = {"width": random.randint(11, 19), "batches": batches, "seed": random.randrange(2**31)}
    return [*cases, Case("hidden 0", parameters)]


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


@once_a_case
def true_counts(case: Case) -> Sequence[int]:
    """The count of each model that the case names."""
    return [true_count(*build_counted(case, name, batches)) for name, batches in counted(case)]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """Names of misconceptions with the figures of this case, the most telling first."""
    given = zip(counted(case), evidence.values["counts"], true_counts(case), strict=True)
    for (name, batches), counts, expected in given:
        yield from _judge_count(batches, counts, expected, name)
    yield from _judge_compiling(case, evidence, *build(case))
    afterwards = evidence.values.get("count afterwards")
    right = true_counts(case)[0]
    if afterwards not in (None, right) and all(count == right for count in evidence.values["counts"][0]):
        yield "configuration changed", f"(first {right}, afterwards {afterwards})"


def _judge_count(
    batches: list[int], counts: list[int], expected: int, name: str
) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    under = {
        "counted calls": [len(batches), len(batches) * GRAPHS.get(name, 1)],
        "one graph a model": [expected // GRAPHS.get(name, 1) if GRAPHS.get(name) else expected],
        "counted shapes": [len(set(batches))],
        "foresaw two": [min(2, len(set(batches)))],
        "recompilations only": [expected - 1],
    }
    asked = f"({MODELS[name].__name__} with batch sizes {batches}"
    yield compared("wrong count", counts[0], expected, under, asked, len(batches))
    if counts[0] == expected and counts[1] != expected:
        yield "earlier runs leak in", f"({asked[1:]}: first {counts[0]}, then {counts[1]})"


def _judge_compiling(
    case: Case, evidence: Evidence, model: BatchAware, inputs: list[torch.Tensor]
) -> Iterator[tuple[str, str]]:
    values = evidence.values
    if values["wrong_dimension"]:
        # Where the first call went well, it is no dimension that the model needs fixed.
        yield ("limited batch size" if "output0" in evidence.tensors else "wrong dimension"), ""
        return
    if values["compilations"] == 0 or "graph" not in evidence.graphs:
        yield "backend not used", ""
        return
    for number, x in enumerate(inputs):
        output = evidence.tensors.get(f"output{number}")
        with torch.no_grad():
            if not agrees(output, model(x), absolute=1e-6):
                yield _changed(output, model, x), f"(batch size {x.shape[0]})"
                return
    if values["compilations"] > 1:
        yield "still compiles again", f"({values['compilations']} graphs)"
        return
    if values["compiled for another"]:
        yield "thrown away for another", ""
        return
    if copied := [role for role in values["placeholders"] if role.startswith("copy of ")]:
        yield "model copied", f"({', '.join(copied)})"
        return
    if not _serves_other_batches(case, evidence, model):
        yield "frozen batch size", ""
        return
    if not all(values["runs"][: len(inputs)]):
        yield "ran without the graph", f"({sum(map(bool, values['runs']))} of {len(inputs)} calls ran it)"
        return
    wanted = gradients(model, [model(x) for x in inputs], inputs)
    if wrong := [name for name, want in wanted.items() if not _same_gradient(evidence.tensors.get(name), want)]:
        yield "gradients lost", f"({', '.join(wrong)})"
        return
    change_weights(model)
    with torch.no_grad():
        if not agrees(evidence.tensors.get("output later"), model(inputs[0]), absolute=1e-6):
            yield "results remembered", ""
            return
    if values["later for autograd"]:
        yield "gradients switched on", ""
    elif not all(values["runs"]):
        yield "ran without the graph", "(under `no_grad`)"


def _changed(output: torch.Tensor | None, model: BatchAware, x: torch.Tensor) -> str:
    """What made something else of a result: the model's other mode, or nobody knows what."""
    training = model.training
    other = model.train(not training)(x)
    model.train(training)
    return "other mode" if agrees(output, other, absolute=1e-6) else "results changed"


def _same_gradient(found: torch.Tensor | None, wanted: torch.Tensor) -> bool:
    return agrees(found, wanted, relative=1e-3, absolute=1e-4 * max(1.0, float(wanted.abs().max())))


def _serves_other_batches(case: Case, evidence: Evidence, model: BatchAware) -> bool:
    """Run the learner's graph on batch sizes that it has never seen."""
    generator = torch.Generator().manual_seed(case.parameters["seed"] % 1000)
    parameters = dict(model.named_parameters())
    for batch in {2, 3, 8, 33} - set(case.parameters["batches"]):
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

"""What an extraction is worth: every output, for inputs and batch sizes of the judge's own, in core operators."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import torch
from torch import fx, nn
from torch.utils._pytree import tree_leaves

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import ENCODED_VALUE, decode, run_flat
from autograder.exchange.graph_form.nodes import all_nodes, placeholders
from autograder.exercises.day3.extract_any.visible import as_call, build, draw_inputs, in_training

MISCONCEPTIONS = {
    "no exported program": "Return what `torch.export.export` returns, an `ExportedProgram`.",
    "unreadable": "The graph of your program cannot be read back.",
    "model left in another mode": (
        "After the extraction the caller's model is in another mode than before. Whoever calls you may be in the "
        "middle of training: put each mode back, or work on a copy."
    ),
    "one mode for all modules": (
        "The model as a whole is in the mode that it had, but some of its modules are not: `model.train(True)` sets "
        "*all* of them, also a batch normalisation that somebody froze with `.eval()` in the middle of a model in "
        "training. Put back the mode of each module, or work on a copy."
    ),
    "modules left in evaluation": (
        "The model as a whole is in the mode that it had, but modules in it are still in evaluation. Setting "
        "`model.training` reaches the model alone, and `copy.copy` makes a new model with the same layers: take "
        "`copy.deepcopy`, or put back the mode of each module."
    ),
    "model changed": (
        "After the extraction the caller's model has other parameters or buffers than before. A model may count or "
        "measure in its buffers whenever it is called: work on a copy, and call only that."
    ),
    "left frozen": (
        "After the extraction other weights of the caller's model require gradients than before. Put each "
        "`requires_grad` back, or work on a copy."
    ),
    "size of a number": (
        "`torch.export` refuses your `dynamic_shapes`: one of the inputs is no tensor but a number, and a number has "
        "no dimension 0. In its place stands `None`."
    ),
    "inputs lost": (
        "Your program does not take all inputs of the model by their names. Every tensor that the model is handed must "
        "be an input of the program, also those in a list, and so must every number."
    ),
    "outputs lost": (
        "Your program returns fewer tensors than the model: a dictionary or tuple of outputs is all of them."
    ),
    "exported in training mode": (
        "Your program behaves as in training: dropout draws, or batch normalisation takes its figures from the batch "
        "instead of from training. Export in evaluation mode, whichever mode the model came in."
    ),
    "program of an earlier call": (
        "Your program computes with weights that the model had at an earlier call of `extract`. The same model with "
        "the same inputs may have been trained in between: extract it anew each time."
    ),
    "froze the batch size": (
        "Your program serves only the batch size of the example. Dimension 0 of *every* tensor input varies, also in a "
        "list, and also when the example is of another kind than the first that you tried."
    ),
    "range with an end": (
        "Your program promises batches up to a greatest size, and refuses greater ones. The model takes any: leave "
        "`max` out of `Dim`."
    ),
    "range from two": (
        "Your program promises batches from two rows up, and refuses a single row. The model takes that, too: "
        "`Dim(name, min=1)` says so, and `Dim.AUTO` and `Dim.DYNAMIC` do not."
    ),
    "not core ATen": (
        "Your program still has operators that are made of simpler ones. `run_decompositions()` on an exported program "
        "gives one in core ATen, the short list of operators that every other system has to know."
    ),
    "computes something else": "For some inputs your program does not compute what the model computes.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Each kind of model, with other sizes and in the other mode: one in part frozen, one with a number as an input.

    One is extracted twice, and trained in between. One has a module of no kind that PyTorch has.
    """
    more: dict[str, dict[str, Any]] = {
        "images": {"frozen": True},
        "detector": {"scale": random.choice([0.5, 2.0, 3.0])},
    }
    nested = {
        "model": "weighted",
        "channels": random.randint(3, 7),
        "batch": random.randint(2, 5),
        "seed": random.randrange(2**31),
        "power": random.choice([2, 3]),
    }
    further = [
        ("a number in its place", more["detector"] | {"model": "detector", "positional": True, "training": False}),
        ("positional arguments that nest", {"positional": True, "flip": True, "training": True}),
        ("keywords that nest", {"positional": False, "flip": False, "training": False, "again": True}),
        (
            "training inside evaluation",
            {
                "positional": True,
                "flip": False,
                "training": False,
                "modes": {"inner.1": True, "outer.0.0": True, "outer": True},
            },
        ),
        ("a module of its own kind", {"model": "homemade", "training": True}),
    ]
    drawn = [
        Case(
            f"hidden {i}",
            {
                "model": name,
                "channels": random.randint(3, 7),
                "batch": random.randint(2, 5),
                "training": True,
                "seed": random.randrange(2**31),
                **more.get(name, {}),
            },
        )
        for i, name in enumerate(("images", "encoder", "detector"))
    ]
    return [*drawn, *(Case(f"hidden {name}", nested | given) for name, given in further)]


NUMBERS = {"scale": 1.0, "power": 2, "flip": False}
"""Inputs that are no tensors, with what they are where a case does not say."""


NUMBERS_OF = {"detector": ("scale",), "weighted": ("power", "flip")}
"""Which of them a model takes."""


@cache
def decomposable() -> frozenset[str]:
    """Names of the operators that `run_decompositions()` takes apart. (It lists reading a size, and leaves it.)"""
    names = {str(operator) for operator in torch.export.default_decompositions()}
    return frozenset(name for name in names if not name.startswith("aten.sym_"))


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The first thing that is wrong with the program, in the order in which a learner would mend it."""
    values = evidence.values
    if values["kind"] == "unreadable":
        yield "unreadable", f"({values['text']})"
        return
    if values["kind"] == "size of a number":
        yield "size of a number", f"({str(values['text']).splitlines()[0][:200]})"
        return
    if values["kind"] != "program":
        yield "no exported program", f"(found a {values['kind']})"
        return
    graph = decode(evidence.graphs["graph"])
    finding = next(computed(case, graph), None) or next(promised(graph, values["ranges"]), None)
    if finding:
        yield finding
        return
    left = sorted({str(node.target) for node in all_nodes(graph) if node.op == "call_function"} & decomposable())
    if left:
        yield "not core ATen", f"({', '.join(left[:4])})"
    if changed := values["modes_changed"]:
        # The name of the model itself, among its modules, is empty.
        inner = "modules left in evaluation" if values["modes_lost"] == changed else "one mode for all modules"
        yield ("model left in another mode", "") if "" in changed else (inner, f"({changed})")
    if not values["state_kept"]:
        yield "model changed", ""
    if not values["trained_kept"]:
        yield "left frozen", ""


def computed(case: Case, graph: fx.GraphModule) -> Iterator[tuple[str, str]]:
    """What running the graph shows, on the example's batch size first."""
    model = build(case)
    batch, seed = case.parameters["batch"], case.parameters["seed"]
    numbers = {name: case.parameters.get(name, default) for name, default in NUMBERS.items()}
    arguments = {node.name: node for node in placeholders(graph)}
    inputs = draw_inputs(case, batch, seed + 1)
    handed = {name for name in NUMBERS_OF.get(case.parameters["model"], ()) if name in case.parameters}
    if set(arguments) - set(NUMBERS) != set(inputs) or not handed <= set(arguments):
        theirs = ", ".join([*inputs, *sorted(handed)])
        yield "inputs lost", f"(yours: {', '.join(arguments) or 'none'}; the model's: {theirs})"
        return
    wanted = answers(case, model.eval(), inputs)
    try:
        found = [run_flat(graph, numbers | inputs, draw) for draw in range(2)]
    except Exception as error:  # a graph from outside may raise anything
        yield "computes something else", f"(it raises {str(error).splitlines()[0][:200]})"
        return
    if len(found[0]) < len(wanted):
        yield "outputs lost", f"({len(found[0])} of {len(wanted)})"
        return
    if not same(found[0], wanted):
        if case.parameters.get("again", False):
            with in_training(model):
                earlier = answers(case, model, inputs)
            if same(found[0], earlier):
                yield "program of an earlier call", ""
                return
        training = not same(found[0], found[1]) or same(found[0], answers(case, build(case).train(), inputs))
        yield ("exported in training mode" if training else "computes something else"), ""
        return
    for size in (1, batch + 3, 17):
        inputs = draw_inputs(case, size, seed + size)
        try:
            right = same(run_flat(graph, numbers | inputs), answers(case, model, inputs))
        except Exception:  # sizes that do not fit raise all kinds of errors
            right = False
        if not right:
            yield "froze the batch size", f"(right for {batch}, not for {size})"
            return
    shapes = [node.meta.get(ENCODED_VALUE) for node in arguments.values()]
    if any(isinstance(shape, dict) and type(shape.get("shape", ["s"])[0]) is int for shape in shapes):
        yield "froze the batch size", f"(the program accepts batches of {batch} only)"


def promised(graph: fx.GraphModule, ranges: dict[str, list[int | None]]) -> Iterator[tuple[str, str]]:
    """What the ranges say of the batch size: from 1 on, with no end."""
    for node in placeholders(graph):
        shape = (node.meta.get(ENCODED_VALUE) or {}).get("shape")
        least, most = ranges.get(str(shape[0]), [None, None]) if shape else (None, None)
        if most is not None:
            yield "range with an end", f"(yours ends at {most})"
        elif least is not None and least > 1:
            yield "range from two", f"(yours begins at {least})"


def answers(case: Case, model: nn.Module, inputs: dict[str, torch.Tensor]) -> list[Any]:
    """What the model gives, as a flat list."""
    call = as_call(case, inputs)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        return list(tree_leaves(model(**call) if isinstance(call, dict) else model(*call)))


def same(found: list[Any], wanted: list[Any]) -> bool:
    """Whether both are the same tensors but for rounding."""
    return len(found) == len(wanted) and all(
        agrees(one, other, relative=1e-4, absolute=1e-5) for one, other in zip(found, wanted, strict=True)
    )

"""What an input is worth: the judge runs its own model and its own trace on it."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day3.silent_mistake.visible import MOST, build

MISCONCEPTIONS = {
    "no tensor": "Return an input, a tensor of shape (batch, length, width), or `None` when you found none.",
    "outside the domain": (
        "That is no fair input: the model is meant for finite `float32` values up to 1000 in shape "
        "(batch, length, width), with the same width as the example and at least one row and one step."
    ),
    "nothing found": (
        "You found nothing, but an input of the same shape with other values exists on which model and trace differ. "
        "Did you compare the trace with the model, and not one of them with itself or on the example only?"
    ),
    "other magnitudes not tried": (
        "You found nothing, but a difference shows once the values are large: a threshold may lie far from where "
        "ordinary random numbers fall. Try several magnitudes, of both signs. And compare the *absolute* difference: "
        "the model's numbers may be below the trace's, or above them."
    ),
    "other lengths not tried": (
        "You found nothing, but there is something: values are not all that an input has. A loop over a shape is "
        "unrolled as often as the example was long. A longer input that only repeats the example may come to the same "
        "in the end; and one number of the answer that differs is enough."
    ),
    "other shape overlooked": (
        "You found nothing, but when there are more steps than the example had, the trace answers for fewer of them "
        "than the model does. An answer of another shape is wrong. Compare the shapes before the values: `allclose` "
        "raises an error for shapes that do not fit, and that is not an error of the trace."
    ),
    "loud, not silent": (
        "On your input the trace raises an error. That is the harmless kind of mistake: somebody notices. Look for an "
        "input on which it *answers*, wrongly."
    ),
    "no difference there": "On the input that you returned, trace and model agree.",
    "faithful trace accused": (
        "This trace is right on every input (its branch is a `torch.where`, and both sides are in the graph). "
        "Return `None` when nothing was found, not the last thing that you tried."
    ),
    "nan accused": (
        "On your input the model gives `nan`, and the trace gives `nan` in the same places: that is the same answer. "
        "`nan` equals nothing, itself included; `torch.allclose` has `equal_nan=True`. Return `None` when nothing was "
        "found."
    ),
    "rounding accused": (
        "On your input trace and model agree up to rounding (1e-4), and so they do on every other one: that is no "
        "mistake. Compare with a tolerance that holds beside 0, too (`atol`), and return `None` when nothing was found."
    ),
}

MISSED = {
    "threshold": "nothing found",
    "halving": "other magnitudes not tried",
    "recurrent": "other lengths not tried",
    "each step": "other shape overlooked",
}
"""Which misconception finding nothing is, by model."""

ACCUSED = {"faithful": "faithful trace accused", "rescaled": "rounding accused"}
"""Which misconception finding something is, by model."""


def hidden_cases(random: Random) -> list[Case]:
    """Every model, with other thresholds and shapes; thresholds that few inputs reach; one row, or step, or both.

    Whoever compares the answers for one step with those for many, and not their shapes, compares one with each of them.
    With a scale close to the greatest `float32` number, model and trace give `nan` alike. And where the example has one
    step, and a threshold lies far away, no step at all would be the first length that tells model and trace apart.

    A recurrent model forgets: after many steps, the same values once more change nothing. With one row, and more steps
    than a row has values, whoever takes one size for another tries too few steps. Of thousands of numbers in an answer,
    some are nearly right. And the last two traces are wrong on one side only: with the seeds beside them, all that the
    model gives is below what the trace gives, or above it.
    """
    told: list[tuple[str, float, list[int], int | None]] = [
        ("threshold", random.uniform(5, 60), _some_rows_and_steps(random), None),
        ("threshold", -random.uniform(5, 60), _some_rows_and_steps(random), None),
        ("halving", random.uniform(3, 8), _some_rows_and_steps(random), None),
        ("recurrent", 1.0, [1, 30, 20], 3),
        ("faithful", random.uniform(-2, 2), _some_rows_and_steps(random), None),
        ("rescaled", random.uniform(-0.5, 0.5), _some_rows_and_steps(random), None),
        ("threshold", far := random.uniform(300, 380), [4, 7], None),
        ("threshold", -far, [4, 7], None),
        ("faithful", 0.0, [1, 1], None),
        ("each step", 1.0, [1, 6, 3], 9),
        ("each step", random.uniform(0.5, 1.5), [random.randint(2, 4), 1], None),
        ("greatest", random.uniform(0.5, 1.5), [random.randint(1, 4), random.randint(2, 6)], None),
        ("greatest", random.uniform(0.5, 1.5), [random.randint(2, 4), 1], None),
        ("greatest", random.uniform(1e38, 3e38), [random.randint(1, 4), random.randint(2, 6)], None),
        ("threshold", -random.uniform(5, 60), [random.randint(1, 4), 1], None),
        ("recurrent", 1.0, [50, 4, 64], 15),
        ("threshold", 25.0, [3, 4, 21], 50),
        ("threshold", -25.0, [3, 4, 22], 42),
    ]
    widths = random.sample(range(4, 20), 16)  # others than those above, so that no input fits two cases
    cases = []
    for number, (name, threshold, shape, seed) in enumerate(told):
        shape = shape if len(shape) == 3 else [*shape, widths.pop()]
        seed = random.randrange(2**31) if seed is None else seed
        given = {"model": name, "threshold": threshold, "shape": shape, "seed": seed}
        cases.append(Case(f"hidden {number}", given))
    return cases


def _some_rows_and_steps(random: Random) -> list[int]:
    return [random.randint(2, 5), random.randint(2, 7)]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The one thing that is wrong with what was found, if anything is."""
    name, threshold = case.parameters["model"], case.parameters["threshold"]
    kind = evidence.values["kind"]
    if kind == "nothing":
        if name == "threshold" and abs(threshold) > 1:
            yield "other magnitudes not tried", ""
        elif name in MISSED:
            yield MISSED[name], ""
        return
    if kind != "tensor" or "found" not in evidence.tensors:
        yield "no tensor", f"(found a {kind})"
        return
    x = evidence.tensors["found"]
    model, traced, example = build(case)
    if why := unfair(x, example):
        yield "outside the domain", f"({why})"
        return
    with torch.no_grad():
        wanted = model(x)
        try:
            found = traced(x)
        except RuntimeError:
            yield "loud, not silent", f"(shape {tuple(x.shape)}; the example had {tuple(example.shape)})"
            return
    if found.shape == wanted.shape and torch.allclose(found, wanted, rtol=1e-4, atol=1e-4, equal_nan=True):
        yield "nan accused" if bool(wanted.isnan().any()) else ACCUSED.get(name, "no difference there"), ""


def unfair(x: torch.Tensor, example: torch.Tensor) -> str:
    """What makes an input unfair, as a learner reads it; empty when it is fair."""
    width = example.shape[2]
    if x.dtype != torch.float32:
        return f"yours has {x.dtype}"
    if x.dim() != 3 or x.shape[2] != width or x.numel() == 0:
        return f"yours has shape {tuple(x.shape)}; the example's width is {width}"
    if x.numel() > 10**6:
        return f"yours has {x.numel()} values; a million is the most that is tried here"
    if not bool(torch.isfinite(x).all()):
        return "yours has values that are not finite"
    largest = float(x.abs().max())
    return f"the largest absolute value in yours is {largest:.6g}" if largest > MOST else ""

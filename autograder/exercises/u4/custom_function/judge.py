"""What the function gives, worked out from the formulas of the task without a custom function."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exercises.u4.custom_function.visible import SECOND, inputs, made, mapped, second

MISCONCEPTIONS = {
    "wrong values": "The result is not `step * n`, with `n = round(x / step)` kept between -levels and levels.",
    "halves rounded otherwise": (
        "A value halfway between two levels went to the other one. `torch.round` takes the even one; adding a half and "
        "taking the floor does not."
    ),
    "multiplied by the reciprocal": (
        "`x * (1 / step)` is rounded twice, and so isn't always `x / step`: a value on a half, or on the last level, "
        "went elsewhere. Divide."
    ),
    "input overwritten": "An input is another one afterwards. Compute something new from it.",
    "no gradient": "There is no gradient. `backward` returns one for each input of `forward`: two tensors, and `None`.",
    "outside passes": (
        "The gradient of `x` passes where `x / step` lies beyond the levels. There the result does not depend on `x`: "
        "the gradient is 0."
    ),
    "inside by level": (
        "Whether `x` counts as inside depends on `x / step`, not on the rounded level: at 3.3 steps and 3 levels the "
        "level is 3, but `x` is outside."
    ),
    "gradient not weighted": (
        "Your formula leaves out the gradient that comes in. Multiply by it: it says how much the loss changes with "
        "the result."
    ),
    "gradient of x": "The gradient of `x` is wrong: it is what comes in where |x / step| <= levels, and 0 elsewhere.",
    "outside like inside": (
        "The gradient of `step` is wrong for values beyond the levels. There the result is `step` times a fixed level, "
        "so its derivative is that level, without `- x / step`."
    ),
    "gradient of step": (
        "The gradient of `step` is wrong. With v = x / step it is the sum of what comes in times n - v inside, and "
        "times n outside."
    ),
    "not differentiable twice": (
        "The backward pass cannot be differentiated. Write it with PyTorch's operators, and without "
        "`once_differentiable`, `.data`, `.detach()` or NumPy."
    ),
    "wrong second derivative": (
        "The gradients are right, and their derivatives wrong. Autograd follows `backward` only from what was handed "
        "to `save_for_backward` as an input or an output, and from the gradient that comes in. What you computed in "
        "`forward` or `setup_context` counts as a constant, and so does what `backward` detaches, or computes under "
        "`no_grad`. Save `x` and `step`, and compute from them."
    ),
    "not noticed": (
        "An input was overwritten after the call, and the backward pass used the new numbers without a word. "
        "`ctx.save_for_backward` keeps the version and raises; a tensor that is kept as an attribute of `ctx` has no "
        "such guard."
    ),
    "no setup_context": (
        "`torch.func` needs `forward` without `ctx`, and what is to be kept in `setup_context(ctx, inputs, output)`."
    ),
    "no vmap": (
        "`vmap` does not know what to do with your function. `generate_vmap_rule = True` in the class lets it run your "
        "methods on batched tensors; they must be made of PyTorch's operators only."
    ),
    "wrong rows": (
        "With `torch.func`, other values or gradients come out than the formulas give for each row by itself. `vmap` "
        "may map over `x`, over `step` or over both, along any dimension."
    ),
    "asked for one only": (
        "Only one of `x` and `step` asks for a gradient, and it gets none, or a wrong one. `ctx.needs_input_grad` has "
        "one entry for each input, in the order of `forward`."
    ),
    "levels of another call": (
        "Between this call and its backward pass there was another call, and you went backward with *its* levels. What "
        "belongs to a call goes to its `ctx`, not to the class."
    ),
    "no function": (
        "The result's node is none of yours. Derive from `torch.autograd.Function`, and do not override `apply`."
    ),
}


def hidden_cases(random: Random) -> list[Case]:
    """Other shapes, dtypes, numbers of levels, and values that lie on the borders."""
    seed = random.randrange
    return [
        Case("one number", inputs([], seed(10**6))),
        Case("a step for each row", inputs([3, 2], seed(10**6), step=[3, 1])),
        Case("a step for each number", inputs([2, 2], seed(10**6), step=[2, 2], levels=1)),
        Case("no elements", inputs([0, 3], seed(10**6))),
        Case("halves", inputs([5, 8], seed(10**6), halves=True)),
        Case("halves of steps", inputs([29, 4], seed(10**6), halves=True, inexact=True, step=[4], levels=5)),
        Case("few levels", inputs([6, 6], seed(10**6), levels=1)),
        Case("many levels", inputs([4, 4], seed(10**6), levels=random.randint(7, 20))),
        Case("single precision", inputs([3, 5], seed(10**6), dtype="float32")),
        Case("row by row, with steps", inputs([3, 4], seed(10**6), rows=True, step=[4], levels=2)),
        Case("large", inputs([20, 20], seed(10**6), levels=2)),
        Case("far beyond the levels", inputs([3, 4], seed(10**6), far=True)),
        Case("negative steps", inputs([5, 4], seed(10**6), step=[4], negative=True)),
        Case("two calls", inputs([5, 5], seed(10**6), levels=1, between=4)),
    ]


def levels_of(x: torch.Tensor, step: torch.Tensor, levels: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """`x` in steps, the level of each value, and which lie between the last ones."""
    v = x / step
    return v, torch.round(v).clamp(-levels, levels), v.abs() <= levels


def gradients_of(
    x: torch.Tensor, step: torch.Tensor, weights: torch.Tensor, levels: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The formulas of the task."""
    v, n, inside = levels_of(x, step, levels)
    return weights * inside, (weights * torch.where(inside, n - v, n)).sum_to_size(step.shape)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The first thing that is wrong with what the function gave."""
    found = _first_order(case, evidence) or _second_order(case, evidence) or _elsewhere(case, evidence)
    if found:
        yield found


def _right(evidence: Evidence, name: str, wanted: torch.Tensor) -> bool:
    relative = 1e-9 if wanted.dtype == torch.float64 else 1e-4
    return agrees(evidence.tensors.get(name), wanted, relative=relative, absolute=relative)


def _first_order(case: Case, evidence: Evidence) -> tuple[str, str] | None:
    given, levels = made(case.parameters), case.parameters["levels"]
    x, step, weights = (given[name] for name in SECOND)
    v, n, _ = levels_of(x, step, levels)
    if not evidence.values["kept"]:
        return "input overwritten", ""
    if not _right(evidence, "value", step * n):
        inverted = torch.round(x * (1 / step)).clamp(-levels, levels)
        if _right(evidence, "value", step * inverted):
            return "multiplied by the reciprocal", ""
        other = torch.floor(v + 0.5).clamp(-levels, levels)
        return ("halves rounded otherwise" if _right(evidence, "value", step * other) else "wrong values"), ""
    if not {"gradient of x", "gradient of step"} <= set(evidence.tensors):
        return "no gradient", ""
    of_x, of_step = gradients_of(x, step, weights, levels)
    between = case.parameters["between"]
    if between is not None and _right(evidence, "gradient of x", gradients_of(x, step, weights, between)[0]):
        return "levels of another call", ""
    if not _right(evidence, "gradient of x", of_x):
        return _why_x(evidence, x, step, weights, levels), ""
    if not _right(evidence, "gradient of step", of_step):
        alike = (weights * (n - v)).sum_to_size(step.shape)
        return ("outside like inside" if _right(evidence, "gradient of step", alike) else "gradient of step"), ""
    for name, wanted in (("x", of_x), ("step", of_step)):
        if not _right(evidence, f"gradient of {name} alone", wanted):
            return "asked for one only", f"({name})"
    return None


def _why_x(evidence: Evidence, x: torch.Tensor, step: torch.Tensor, weights: torch.Tensor, levels: int) -> str:
    v, _, inside = levels_of(x, step, levels)
    for name, other in (
        ("outside passes", weights),
        ("inside by level", weights * (torch.round(v).abs() <= levels)),
        ("gradient not weighted", inside.to(x.dtype)),
    ):
        if _right(evidence, "gradient of x", other):
            return name
    return "gradient of x"


def _second_order(case: Case, evidence: Evidence) -> tuple[str, str] | None:
    if "second failed" in evidence.values:
        return "not differentiable twice", f"({evidence.values['second failed']})"
    levels = case.parameters["levels"]
    wanted = second(made(case.parameters), lambda x, step, weights: gradients_of(x, step, weights, levels))
    for name, one in wanted.items():
        if not _right(evidence, name, one):
            return "wrong second derivative", f"(the derivative by {name.removeprefix('second of ')})"
    return None


def _elsewhere(case: Case, evidence: Evidence) -> tuple[str, str] | None:
    # A function of no elements has nothing to overwrite.
    if 0 not in case.parameters["shape"]:
        for name, notices in evidence.values["notices"].items():
            if notices is not True:
                return "not noticed", f"({name} was overwritten)"
    if case.parameters["rows"]:
        failed = evidence.values.get("rows failed")
        if failed:
            # A rule of one's own that moves dimensions wrongly fails over shapes.
            name = "no setup_context" if "setup_context" in failed else "no vmap" if "vmap" in failed else "wrong rows"
            return name, f"({failed})"
        given, levels = made(case.parameters), case.parameters["levels"]
        rows = zip(given["x"], given["weights"], strict=True)
        found = [gradients_of(row, given["step"], weights, levels) for row, weights in rows]
        for name, of_rows in zip(("rows of x", "rows of step"), zip(*found, strict=True), strict=True):
            if not _right(evidence, name, torch.stack(of_rows)):
                return "wrong rows", f"(the gradient of {name.removeprefix('rows of ')})"
        for name, values in mapped(given, lambda x, step: step * levels_of(x, step, levels)[1]).items():
            if not _right(evidence, name, values):
                return "wrong rows", f"(the values, {name})"
    return None if evidence.values["is a function"] is True else ("no function", "")

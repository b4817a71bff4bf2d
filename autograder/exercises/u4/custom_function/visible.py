"""The learner's side: inputs for the function, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence

TENSORS = ("value", "gradient of x", "gradient of step")
SECOND = ("x", "step", "weights")


def inputs(shape: list[int], seed: int, **more: Any) -> dict[str, Any]:
    """What the function is called with.

    Args:
        shape: sizes of `x`.
        seed: of its numbers.
        more: `step`, sizes of the steps; `levels`; `dtype`; `halves`, whether `x` is made of halves of a step; `rows`,
            whether gradients are asked for row by row with `torch.func`; `negative`, whether every other step is;
            `between`, levels of a call that comes between this one and its backward pass; `inexact`, whether the
            steps of the halves are numbers that binary digits only come near; `far`, whether every other number of `x`
            is far beyond the levels.
    """
    usual = {"step": [], "levels": 3, "dtype": "float64", "halves": False, "rows": False}
    usual |= {"negative": False, "between": None, "inexact": False, "far": False}
    return {"shape": shape, "seed": seed, **usual, **more}


def visible_cases() -> list[Case]:
    """A matrix with one step, a step for each column, and gradients row by row."""
    return [
        Case("a matrix", inputs([3, 4], 1)),
        Case("a step for each column", inputs([3, 2], 2, step=[2], levels=2)),
        Case("row by row", inputs([4, 3], 3, rows=True)),
    ]


def made(parameters: dict[str, Any]) -> dict[str, torch.Tensor]:
    """`x`, `step`, and what the result and both gradients are weighted with."""
    generator = torch.Generator().manual_seed(parameters["seed"])
    dtype = getattr(torch, parameters["dtype"])

    def drawn(sizes: list[int]) -> torch.Tensor:
        return torch.randn(sizes, generator=generator, dtype=torch.float64)

    step = 0.5 + drawn(parameters["step"]).abs()
    if parameters["negative"]:
        step.view(-1)[::2].neg_()
    x = 2.5 * drawn(parameters["shape"]) * step
    if parameters["halves"]:
        # Exact in binary, so that a half is a half.
        step = torch.full(parameters["step"], 0.25, dtype=torch.float64)
        x = torch.randint(-9, 10, parameters["shape"], generator=generator) * 0.125
    if parameters["inexact"]:
        # Each column is one step's: halves and whole steps up to beyond the levels.
        step = torch.tensor([0.07, 0.11, 0.7, 1.3], dtype=torch.float64)
        x = (torch.arange(parameters["shape"][0])[:, None] - parameters["shape"][0] // 2) * (step / 2)
    if parameters["far"]:
        # No whole number of the machine's is as large, on either side.
        x.view(-1)[::4], x.view(-1)[2::4] = 1e30, -1e30
    weights, weights_x = drawn(parameters["shape"]), drawn(parameters["shape"])
    found = {
        "x": x,
        "step": step,
        "weights": weights,
        "weights of x": weights_x,
        "weights of step": drawn(parameters["step"]),
    }
    return {name: one.to(dtype) for name, one in found.items()}


Gradients = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""From `x`, `step` and the gradient that comes in to the gradients of both."""


def second(given: dict[str, torch.Tensor], gradients: Gradients) -> dict[str, torch.Tensor]:
    """Derivatives of both gradients, weighted and added up, by `x`, `step` and the gradient that comes in.

    Raises:
        RuntimeError: the gradients cannot be differentiated.
    """
    asked = [given[name].detach().clone().requires_grad_() for name in SECOND]
    of_x, of_step = gradients(*asked)
    total = (of_x * given["weights of x"]).sum() + (of_step * given["weights of step"]).sum()
    found = torch.autograd.grad(total, asked, allow_unused=True)
    if all(one is None for one in found):
        raise RuntimeError("nothing leads from the gradients back to what they were computed from")
    return {
        f"second of {name}": torch.zeros_like(one) if gradient is None else gradient
        for name, one, gradient in zip(SECOND, asked, found, strict=True)
    }


def probe(case: Case, function: Any) -> Evidence:
    """Call the function, go backward once and twice, and overwrite what it needs."""
    given, levels = made(case.parameters), case.parameters["levels"]
    x, step = (given[name].detach().clone().requires_grad_() for name in ("x", "step"))
    value = function.apply(x, step, levels)
    if case.parameters["between"] is not None:
        function.apply(x, step, case.parameters["between"])
    tensors = {"value": value.detach()}
    gradients = torch.autograd.grad(value, (x, step), given["weights"], allow_unused=True)
    tensors |= {name: one for name, one in zip(TENSORS[1:], gradients, strict=True) if one is not None}
    for name in ("x", "step"):
        alone = {one: given[one].detach().clone() for one in ("x", "step")}
        asks = alone[name].requires_grad_()
        found = function.apply(alone["x"], alone["step"], levels)
        [gradient] = torch.autograd.grad(found, [asks], given["weights"], allow_unused=True)
        tensors |= {} if gradient is None else {f"gradient of {name} alone": gradient}
    values: dict[str, Any] = {
        "kept": torch.equal(x.detach(), given["x"]) and torch.equal(step.detach(), given["step"]),
        "is a function": isinstance(value.grad_fn, torch.autograd.function.BackwardCFunction),
        "notices": {name: _notices(function, given, levels, name) for name in ("x", "step")},
    }

    def through(x: torch.Tensor, step: torch.Tensor, weights: torch.Tensor) -> Any:
        return torch.autograd.grad(function.apply(x, step, levels), (x, step), weights, create_graph=True)

    try:
        tensors |= second(given, through)
    except RuntimeError as error:
        values["second failed"] = str(error)[:200]
    if case.parameters["rows"]:
        try:
            tensors |= by_rows(given, lambda x, step: function.apply(x, step, levels))
            tensors |= mapped(given, lambda x, step: function.apply(x, step, levels))
        except RuntimeError as error:
            values["rows failed"] = str(error)[:300]
    return Evidence(values, tensors)


def by_rows(
    given: dict[str, torch.Tensor], function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Gradients of each row's sum, by `torch.func`."""

    def of_a_row(row: torch.Tensor, step: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return (function(row, step) * weights).sum()

    of_rows = torch.func.vmap(torch.func.grad(of_a_row, argnums=(0, 1)), in_dims=(0, None, 0))
    of_x, of_step = of_rows(given["x"], given["step"], given["weights"])
    return {"rows of x": of_x, "rows of step": of_step}


def mapped(
    given: dict[str, torch.Tensor], function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The function's values under `vmap`: over rows in front and behind, with a step for each, and over steps alone."""
    x, step = given["x"], given["step"]
    of_each = torch.stack([step * (1 + row) for row in range(len(x))])
    # Of three dimensions, so that to move one is another thing than to exchange two.
    thrice = torch.stack([x, -x, x / 2], 1)
    factors = torch.tensor([[1.0], [2.0], [0.5]], dtype=x.dtype)
    of_each_thrice = torch.stack([step * factors * (1 + row) for row in range(len(x))])
    vmap = torch.func.vmap
    return {
        "mapped over the rows": vmap(function, (0, None))(x, step),
        "mapped over the last dimension": vmap(function, (2, None))(thrice.movedim(0, 2), step),
        "mapped over rows and steps": vmap(function, (0, 0))(x, of_each),
        "mapped over the last dimension of both": vmap(function, (2, 2))(
            thrice.movedim(0, 2), of_each_thrice.movedim(0, 2)
        ),
        "mapped over steps alone": vmap(function, (None, 0))(x, of_each[:2]),
    }


def _notices(function: Any, given: dict[str, torch.Tensor], levels: int, name: str) -> bool:
    """Whether backward raises after an input was overwritten."""
    leaves = {one: given[one].detach().clone().requires_grad_() for one in ("x", "step")}
    used = {one: leaf * 1 for one, leaf in leaves.items()}
    value = function.apply(used["x"], used["step"], levels)
    used[name].mul_(2)
    try:
        torch.autograd.grad(value.sum(), list(leaves.values()), allow_unused=True)
    except RuntimeError:
        return True
    return False


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What came out of the function."""
    lines = [f"{case.name}:"]
    for name in TENSORS:
        found = evidence.tensors.get(name)
        lines.append(
            f"  {name}: {'nothing' if found is None else [round(one, 3) for one in found.flatten().tolist()[:8]]}"
        )
    lines += [
        f"  {name}: {evidence.values[name]}" for name in ("second failed", "rows failed") if name in evidence.values
    ]
    return ["\n".join(lines)]

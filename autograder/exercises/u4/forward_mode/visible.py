"""The learner's side: functions to differentiate, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence

Program = dict[str, Any]
"""A function.

`sizes`: of `x`. `constants`: sizes of the others. `steps`: names of `STEPS` with indices of values (`x`, the
constants, then what the steps gave). `dual`: whether it is tried with dual numbers. `zeros`: whether every other number
of `x` is 0. `asking`: whether the constants ask for gradients, as weights do. `dtypes`: of the constants; `None` is
that of `x`. `raises`: whether the function raises an error, or its derivative.
"""


class FunctionError(Exception):
    """What a function raises that does not come to an end."""


def _refuse(x: Any) -> Any:
    raise FunctionError("this function raises an error")


def _spoil(x: torch.Tensor) -> torch.Tensor:
    """A function whose derivative raises: what the backward pass reads is overwritten."""
    found = x.exp()
    found.mul_(2)
    return found


STEPS: dict[str, Callable[..., Any]] = {
    "x + y": lambda x, y: x + y,
    "x - y": lambda x, y: x - y,
    "x * y": lambda x, y: x * y,
    "x / y": lambda x, y: x / y,
    "x @ y": lambda x, y: x @ y,
    "-x": lambda x: -x,
    "x + 2": lambda x: x + 2,
    "2 + x": lambda x: 2 + x,
    "x - 2": lambda x: x - 2,
    "2 - x": lambda x: 2 - x,
    "3 * x": lambda x: 3 * x,
    "x * 3": lambda x: x * 3,
    "x / 4": lambda x: x / 4,
    "x - inf": lambda x: x - float("inf"),
    "x + 0.1": lambda x: x + 0.1,
    "0.3 - x": lambda x: 0.3 - x,
    "0.7 * x": lambda x: 0.7 * x,
    "x / 2.5": lambda x: x / 2.5,
    "4 / x": lambda x: 4 / x,
    "x ** 0": lambda x: x**0,
    "x ** 1": lambda x: x**1,
    "x ** 2": lambda x: x**2,
    "x ** 3": lambda x: x**3,
    "x ** 5": lambda x: x**5,
    "x ** -1": lambda x: x**-1,
    "x ** -2": lambda x: x**-2,
    "exp": lambda x: x.exp(),
    "sin": lambda x: x.sin(),
    "tanh": lambda x: x.tanh(),
    "relu": lambda x: x.relu(),
    "sum": lambda x: x.sum(),
    "sigmoid": lambda x: x.sigmoid(),
    "raise": _refuse,
    "spoil": _spoil,
}
"""What a function is made of. Operators and methods, so that tensors and dual numbers both can do it; not `sigmoid`,
which the task asks of no dual number, nor what raises an error."""


def program(sizes: list[int], *steps: list[Any], constants: list[list[int]] | None = None, **more: Any) -> Program:
    """A function of `x`; see `Program`."""
    usual = {"dual": True, "seed": 0, "dtype": "float64", "zeros": False, "asking": False}
    usual |= {"dtypes": None, "raises": False}
    return {"sizes": sizes, "constants": constants or [], "steps": list(steps), **usual, **more}


PASSES = ("passes", "passes on a leaf", "passes inside a graph")
"""What the two backward passes give: at a tensor, at a leaf that asks for gradients, and at what was computed from
one."""


def visible_cases() -> list[Case]:
    """A chain, products, constants on both sides, and a small network."""
    return [
        Case("a chain", program([3], ["sin", 0], ["exp", 1], ["3 * x", 2])),
        Case("x twice", program([2, 2], ["sin", 0], ["x * y", 0, 1], ["x / y", 2, 0], ["x @ y", 3, 0], seed=1)),
        Case(
            "constants",
            program(
                [2, 1],
                *(["x + y", 0, 1], ["x * y", 1, 2], ["2 - x", 3], ["x - y", 1, 4]),
                constants=[[3]],
                seed=2,
            ),
        ),
        Case(
            "a network",
            program(
                [4, 3],
                *(["x @ y", 0, 1], ["relu", 3], ["x @ y", 4, 2], ["tanh", 5], ["sum", 6]),
                constants=[[3, 5], [5, 2]],
                seed=3,
            ),
        ),
        Case(
            "numbers with a point", program([3], ["0.7 * x", 0], ["x + 0.1", 1], ["0.3 - x", 2], ["x / 2.5", 3], seed=4)
        ),
        Case("what no dual number knows", program([3], ["sigmoid", 0], ["x * y", 0, 1], dual=False, seed=5)),
    ]


def made(given: Program) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """`x`, its tangent, and the constants."""
    generator = torch.Generator().manual_seed(given["seed"])
    dtype = getattr(torch, given["dtype"])
    x, tangent, *constants = (
        torch.randn(sizes, generator=generator, dtype=torch.float64).to(dtype)
        for sizes in (given["sizes"], given["sizes"], *given["constants"])
    )
    if given["zeros"]:
        x.view(-1)[::2] = 0
    if given["dtypes"]:
        constants = [_in_dtype(one, getattr(torch, name)) for one, name in zip(constants, given["dtypes"], strict=True)]
    for constant in constants:
        constant.requires_grad_(given["asking"])
    return x, tangent, constants


def _in_dtype(constant: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Whole numbers are at least 1, so that one can divide by them."""
    return constant.to(dtype) if dtype.is_floating_point else (1 + 3 * constant.abs()).to(dtype)


def function_of(given: Program, constants: list[torch.Tensor]) -> Callable[[Any], Any]:
    """The function that a program describes."""

    def function(x: Any) -> Any:
        values = [x, *constants]
        for name, *indices in given["steps"]:
            values.append(STEPS[name](*(values[index] for index in indices)))
        return values[-1]

    return function


def probe(case: Case, dual: Any, jvp_by_two_backward_passes: Any) -> Evidence:
    """Differentiate a function in both ways, the second one at a tensor, at a leaf, and at a tensor with a history."""
    given = case.parameters
    tensors: dict[str, torch.Tensor] = {}
    values: dict[str, Any] = {"dual is": "", "untouched": True, "raised": []}
    if given["dual"]:
        # Nothing can be recorded here, so a dual number has to know its tangent by itself.
        with torch.inference_mode():
            x, tangent, constants = made(given)
            found = function_of(given, constants)(dual(x, tangent))
            values["dual is"] = type(found).__name__[:40]
            for name in ("value", "tangent"):
                if isinstance(one := getattr(found, name, None), torch.Tensor):
                    tensors[f"dual {name}"] = one
        # A clone that is made out here is an ordinary tensor.
        tensors = {name: one.clone() for name, one in tensors.items()}
    x, tangent, constants = made(given)
    leaf = x.clone().requires_grad_()
    inner = leaf * 1
    before = [(one.requires_grad, one.grad_fn) for one in (x, leaf, inner, tangent, *constants)]
    function = function_of(given, constants)
    for name, asked in zip(PASSES, (x, leaf, inner), strict=True):
        try:
            found = jvp_by_two_backward_passes(function, asked, tangent)
        except (FunctionError, RuntimeError):
            if not given["raises"]:
                raise
            values["raised"].append(name)
            continue
        if isinstance(found, torch.Tensor):
            tensors[name] = found.detach().clone()
    x_before, tangent_before, _ = made(given)
    values["untouched"] = bool(
        all(one.grad is None for one in (leaf, x, *constants))
        and before == [(one.requires_grad, one.grad_fn) for one in (x, leaf, inner, tangent, *constants)]
        and all(torch.equal(one.detach(), x_before) for one in (leaf, x, inner))
        and torch.equal(tangent, tangent_before)
    )
    return Evidence(values, tensors)


def in_words(given: Program) -> str:
    """A function as one writes it down: `v1 = sin(x); v2 = v1 * c1`."""
    names = ["x", *(f"c{number}" for number in range(1, len(given["constants"]) + 1))]
    lines = []
    for number, (name, *indices) in enumerate(given["steps"], 1):
        signs = dict(zip("xy", (names[index] for index in indices), strict=False))
        parts = [signs.get(part, part) for part in name.replace("-x", "- x").split()]
        lines.append(f"v{number} = " + (f"{name}({signs['x']})" if name.isalpha() else " ".join(parts)))
        names.append(f"v{number}")
    return "; ".join(lines)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What both ways gave."""
    lines = [f"{case.name}: {in_words(case.parameters)}"]
    for name, one in sorted(evidence.tensors.items()):
        lines.append(f"  {name}: {list(one.shape)} {[round(number, 3) for number in one.flatten().tolist()[:6]]}")
    return ["\n".join(lines)]

"""Formulas against PyTorch's own derivatives of `cap * tanh(self / cap)`, on inputs that only the judge has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exercises.u8.derivative_formula.visible import ENTRIES, arguments, inputs, weights
from fxopt_workbench.internals.formulas import FormulaError, evaluate
from fxopt_workbench.internals.mirror import BuildError, read_derivatives, read_operators

MISCONCEPTIONS = {
    "refused": "`torchgen` refuses the entry, and says why. The name is the whole schema of the operator.",
    "no formula": "One of the two arguments has no formula. Both have a gradient.",
    "cannot be read": (
        "A formula is no expression that the mirror can read. In PyTorch it would be C++: it knows the arguments, "
        "`grad` and `result`, and nothing else."
    ),
    "gradient not weighted": (
        "Your formula leaves out `grad`, the gradient that comes in: it says how much the loss changes with the "
        "result, and yours multiplies it."
    ),
    "square forgotten": "The derivative of tanh(y) is 1 - tanh(y)². You have forgotten the square.",
    "cap forgotten": "tanh(self / cap) is `result / cap`, not `result`: the cap is a factor of the result.",
    "inner derivative doubled": (
        "The cap in front and the 1 / cap inside cancel each other: the gradient of `self` has no further factor."
    ),
    "other sign": "The gradient has the opposite sign.",
    "inner derivative forgotten": (
        "The cap stands twice in cap * tanh(self / cap). Your formula for `cap` is right for the factor in front, and "
        "forgets the one in the denominator: that term is -self / cap * (1 - tanh²)."
    ),
    "summed by hand": (
        "Your formula sums over the dimensions in which an argument was broadcast. The engine does that itself, after "
        "every node: a formula gives a gradient of the result's shape."
    ),
    "overflow": (
        "Far beyond the cap the gradient is not finite: something like cosh or exp overflows there. Build it from "
        "`result`, which is between -cap and cap."
    ),
    "not finite at zero": (
        "Where `self` is 0 your gradient is not finite: the formula divides by `self`, or by something that is 0 there "
        "as well. What divides is the cap."
    ),
    "a square vanishes": (
        "With a tiny cap your gradient is not finite, although `self` is not far beyond it: the square of a cap of "
        "1e-180 is 0 in floating point. Divide first, and square the quotient."
    ),
    "adds a number": (
        "For small caps your gradient is another one, although `self` and `cap` have the same ratio as larger ones for "
        "which it is right. Something is added that has a size of its own, such as a 1e-12 against a division by 0. A "
        "cap is above 0: leave it out."
    ),
    "wrong gradient of self": "The formula for `self` gives another gradient than `cap * tanh(self / cap)` has.",
    "wrong gradient of cap": "The formula for `cap` gives another gradient than `cap * tanh(self / cap)` has.",
    "wrong second derivative": (
        "The gradient is right, but differentiating your formula once more goes wrong. Somewhere it divides infinity "
        "by infinity, or has a step where the gradient is smooth."
    ),
}

RIGHT = {
    "self": "grad * (1 - (result / cap).square())",
    "cap": "grad * (result / cap - self / cap * (1 - (result / cap).square()))",
}

FLAWED = {
    "self": {
        "gradient not weighted": "1 - (result / cap).square()",
        "square forgotten": "grad * (1 - result / cap)",
        "cap forgotten": "grad * (1 - result.square())",
        "inner derivative doubled": "grad * (1 - (result / cap).square()) / cap",
        "other sign": "-grad * (1 - (result / cap).square())",
    },
    "cap": {
        "gradient not weighted": "result / cap - self / cap * (1 - (result / cap).square())",
        "inner derivative forgotten": "grad * result / cap",
        "square forgotten": "grad * (result / cap - self / cap * (1 - result / cap))",
        "cap forgotten": "grad * (result - self / cap * (1 - result.square()))",
        "other sign": "-grad * (result / cap - self / cap * (1 - (result / cap).square()))",
    },
}
"""Formulas with one mistake, by which it is named; a second one differs in having the factor cap as well."""


def hidden_cases(random: Random) -> list[Case]:
    """Broadcasting both ways, sizes of one and none, far beyond the cap; then drawn shapes."""

    def seed() -> int:
        return random.randrange(10**6)

    cases = [
        Case("a cap for each column", inputs([4, 3], [3], seed())),
        Case("cap is larger", inputs([3, 1], [2, 1, 4], seed())),
        Case("no dimensions", inputs([], [], seed())),
        Case("no elements", inputs([0, 2], [2], seed())),
        Case("far beyond", inputs([6], [], seed(), scale=1e5)),
        Case("small numbers", inputs([6], [6], seed(), scale=1e-3)),
        # `self` is smaller still: where tanh saturates, second derivatives are rounding errors divided by the cap.
        Case("small caps", inputs([5], [5], seed(), scale=1e-10, caps=random.choice([1e-9, 3e-9]))),
        Case("zeros", inputs([3], [3], seed(), scale=0.0)),
        Case("tiny caps", inputs([5], [5], seed(), scale=1e-180, caps=random.choice([1e-179, 3e-179]))),
    ]
    for number in range(2):
        shape = [random.randint(1, 4) for _ in range(random.randint(1, 3))]
        cap = [random.choice([1, size]) for size in shape[random.randint(0, len(shape)) :]]
        cases.append(Case(f"drawn {number}", inputs(shape, cap, seed(), scale=random.choice([0.5, 3.0, 20.0]))))
    return cases


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is wrong with the formula of `self`, or else with that of `cap`."""
    try:
        found = read_derivatives(evidence.values["text"], read_operators(ENTRIES)).get("softcap")
    except BuildError as error:
        yield "refused", f"({error})"
        return
    missing = [name for name in RIGHT if found is None or name not in found.formulas]
    if found is None or missing:
        yield "no formula", f"({', '.join(missing)})"
        return
    for name in RIGHT:
        try:
            difference = _difference(case, name, found.formulas, found.saved)
        except FormulaError as error:
            yield "cannot be read", f"({error})"
            return
        if difference is not None:
            yield (
                difference,
                f"(of {name}, self {case.parameters['x']['shape']}, cap {case.parameters['cap']['shape']})",
            )
            return
    # The built operator must say the same: what another case's evidence holds does not fit.
    values = _values(case)
    wanted = torch.autograd.grad(values["result"], (values["self"], values["cap"]), values["grad"])
    for name, one in zip(RIGHT, wanted, strict=True):
        if not agrees(evidence.tensors.get(name), one, relative=1e-6, absolute=1e-9):
            yield f"wrong gradient of {name}", "(of the operator that was built)"
            return


def _values(case: Case) -> dict[str, torch.Tensor]:
    x, cap = (one.requires_grad_() for one in arguments(case))
    result = cap * torch.tanh(x / cap)
    return {"self": x, "cap": cap, "result": result, "grad": weights(case, result.shape)}


def _difference(case: Case, name: str, formulas: Mapping[str, str], saved: tuple[str, ...]) -> str | None:
    values = _values(case)
    known = {key: one for key, one in values.items() if key in (*saved, "grad")}
    mine = evaluate(formulas[name], known)
    target, result = values[name], values["result"]
    if mine.shape != result.shape:
        return "summed by hand" if mine.shape == target.shape or mine.dim() == 0 else f"wrong gradient of {name}"
    gradient = _reduced(mine, target)
    (wanted,) = torch.autograd.grad(result, target, values["grad"], create_graph=True)
    finite = torch.isfinite(mine)
    if not bool(finite.all()):
        if _right_when_larger(name, formulas, known, wanted):
            return "a square vanishes"
        zero = bool((values["self"].expand(mine.shape)[~finite] == 0).all())
        return "not finite at zero" if zero else "overflow"
    if not torch.allclose(gradient, wanted, rtol=1e-7, atol=1e-9):
        named = _named(name, values, gradient)
        return (
            "adds a number"
            if named not in FLAWED[name] and _right_when_larger(name, formulas, known, wanted)
            else named
        )
    return None if _twice_agrees(gradient, wanted, values) else "wrong second derivative"


def _right_when_larger(
    name: str, formulas: Mapping[str, str], known: Mapping[str, torch.Tensor], wanted: torch.Tensor
) -> bool:
    """Whether a gradient is right with caps of ordinary size: it depends on `self / cap` and nothing else."""
    factor = 1 / known["cap"].detach().abs().min()
    larger = {key: one if key == "grad" else one * factor for key, one in known.items()}
    return torch.allclose(_reduced(evaluate(formulas[name], larger), wanted), wanted, rtol=1e-7, atol=1e-9)


def _named(name: str, values: dict[str, Any], gradient: torch.Tensor) -> str:
    for flaw, formula in FLAWED[name].items():
        other = _reduced(evaluate(formula, values), values[name])
        if gradient.shape == other.shape and torch.allclose(gradient, other, rtol=1e-6, atol=1e-9):
            return flaw
    return f"wrong gradient of {name}"


def _reduced(gradient: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Summed over what was broadcast, as the engine does."""
    return gradient.sum_to_size(target.shape)


def _twice_agrees(gradient: torch.Tensor, wanted: torch.Tensor, values: dict[str, torch.Tensor]) -> bool:
    weights = torch.linspace(0.5, 1.5, max(1, wanted.numel()), dtype=wanted.dtype)[: wanted.numel()].view(wanted.shape)
    for target in (values["self"], values["cap"]):
        right, mine = (
            torch.autograd.grad((one * weights).sum(), target, retain_graph=True, allow_unused=True)[0]
            if one.requires_grad
            else None
            for one in (wanted, gradient)
        )
        pair = [torch.zeros_like(target) if one is None else one for one in (right, mine)]
        # Far beyond the cap the wanted one may itself be a rounding error of zero; for a tiny cap, beyond all numbers.
        there = torch.isfinite(pair[0])
        if not torch.allclose(pair[0][there], pair[1][there], rtol=1e-5, atol=1e-7):
            return False
    return True

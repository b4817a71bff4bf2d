"""The learner's side: programs that write in place, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nn import functional

from autograder.exchange.evidence import Case, Evidence

WHEN_WRITTEN, IN_BACKWARD, SILENT, FINE = "raises when written", "raises in backward", "silent", "fine"

OUTCOMES = (WHEN_WRITTEN, IN_BACKWARD, SILENT, FINE)

Program = dict[str, Any]
"""`leaves`: for each one whether it asks for gradients; `steps`: names of `STEPS` with indices of values; `seed`;
`held`: whether leaves that ask have a gradient already, from an earlier pass."""

Step = Callable[[list[torch.Tensor]], torch.Tensor]


def _unrecorded(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return x.mul_(3)


def _by_numpy(x: torch.Tensor) -> torch.Tensor:
    x.detach().numpy()[0] += 1
    return x


def _by_data(x: torch.Tensor, factor: float = 3.0) -> torch.Tensor:
    x.data.mul_(factor)
    return x


def _filled(x: torch.Tensor, number: float) -> torch.Tensor:
    x.data.fill_(number)
    return x


def _written_often(x: torch.Tensor) -> torch.Tensor:
    for _ in range(300):
        x.add_(1)
    return x


def _detached(x: torch.Tensor) -> torch.Tensor:
    x.detach().mul_(3)
    return x


def _assigned(x: torch.Tensor) -> torch.Tensor:
    x[0] = 2.0
    return x


def _then_written(
    function: Callable[[torch.Tensor], torch.Tensor], write: Callable[[torch.Tensor], object], own_result: bool
) -> Callable[[torch.Tensor], torch.Tensor]:
    """A step that saves a value, its result or what it reads, and then writes into it."""

    def step(x: torch.Tensor) -> torch.Tensor:
        result = function(x)
        write(result if own_result else x)
        return result

    return step


STEPS: dict[str, Callable[..., torch.Tensor]] = {
    "exp": torch.exp,
    "sin": torch.sin,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sqrt": torch.sqrt,
    "double": lambda x: x * 2,
    "minus": lambda x: -x,
    "mul": lambda x, y: x * y,
    "add": lambda x, y: x + y,
    "dropout": lambda x: functional.dropout(x, 0.5),
    "row": lambda x: x[0],
    "flat": lambda x: x.view(-1),
    "first of unbind": lambda x: x.unbind(0)[0],
    "mul_": lambda x: x.mul_(3),
    "add_": lambda x: x.add_(1),
    "add_ 300 times": _written_often,
    "mul_ by 1": lambda x: x.mul_(1),
    "assign": _assigned,
    "no_grad mul_": _unrecorded,
    "detach mul_": _detached,
    "data mul_": _by_data,
    "data mul_ by 1": partial(_by_data, factor=1.0),
    "data halve": partial(_by_data, factor=0.5),
    "data double": partial(_by_data, factor=2.0),
    "data nudge": partial(_by_data, factor=1.0 + 2.0**-40),
    "data fill nan": partial(_filled, number=float("nan")),
    "numpy": _by_numpy,
    "exp then mul_": _then_written(torch.exp, lambda y: y.mul_(3), own_result=True),
    "exp then data mul_": _then_written(torch.exp, _by_data, own_result=True),
    "relu then data mul_": _then_written(torch.relu, _by_data, own_result=True),
    "sqrt then data fill 2": _then_written(torch.sqrt, partial(_filled, number=2.0), own_result=True),
    "sin then add_": _then_written(torch.sin, lambda x: x.add_(1), own_result=False),
    "sin then data mul_": _then_written(torch.sin, _by_data, own_result=False),
    "loss": lambda *xs: torch.stack([x.sum() for x in xs]).sum(),
}
"""What a program is made of."""


def program(leaves: str, *steps: list[Any], seed: int = 0, held: bool = False) -> Program:
    """A program over leaves of two rows and three columns: `x` asks for gradients, `c` does not."""
    return {"leaves": [one == "x" for one in leaves.split()], "steps": list(steps), "seed": seed, "held": held}


def visible_cases() -> list[Case]:
    """One of each outcome, twice."""
    return [
        Case("one of each", {"programs": [
            program("x", ["sin", 0], ["double", 1], ["add_", 2], ["loss", 2]),
            program("x", ["add_", 0], ["sin", 1], ["loss", 2]),
            program("x", ["exp", 0], ["double", 1], ["add_", 1], ["loss", 2], seed=1),
            program("x", ["exp", 0], ["double", 1], ["data mul_", 1], ["loss", 2], seed=2),
        ]}),
        Case("and again", {"programs": [
            program("x c", ["mul", 0, 1], ["tanh", 2], ["mul_", 2], ["loss", 3, 4], seed=3),
            program("x c", ["mul", 0, 1], ["numpy", 1], ["loss", 2], seed=4),
            program("x c", ["mul", 0, 1], ["data mul_", 2], ["loss", 2], seed=5),
            program("x", ["double", 0], ["sin", 1], ["row", 1], ["mul_", 3], ["loss", 2], seed=6),
        ]}),
    ]  # fmt: skip


def steps_of(given: Program) -> list[Step]:
    """A program as a learner gets it: each step takes all values so far and returns the next one."""

    def step(values: list[torch.Tensor], name: str, indices: list[int]) -> torch.Tensor:
        return STEPS[name](*(values[index] for index in indices))

    return [partial(step, name=name, indices=indices) for name, *indices in given["steps"]]


def leaves_of(given: Program) -> list[torch.Tensor]:
    """New leaves with the program's numbers."""
    generator = torch.Generator().manual_seed(given["seed"])
    return [
        torch.randn(2, 3, generator=generator, dtype=torch.float64).requires_grad_(asks) for asks in given["leaves"]
    ]


def probe(case: Case, diagnose: Any) -> Evidence:
    """Ask for each program what happens."""
    answers = []
    for given in case.parameters["programs"]:
        torch.manual_seed(given["seed"])
        leaves, before = leaves_of(given), leaves_of(given)
        for one in (*leaves, *before):
            one.grad = torch.full_like(one, 0.5) if given["held"] and one.requires_grad else None
        answers.append(_as_json(diagnose(steps_of(given), leaves)))
        if not all(_as_before(one, other) for one, other in zip(leaves, before, strict=True)):
            answers[-1] = "touched"
    return Evidence({"answers": answers})


def _as_before(leaf: torch.Tensor, before: torch.Tensor) -> bool:
    if (leaf.grad is None) != (before.grad is None) or leaf.requires_grad != before.requires_grad:
        return False
    same = leaf.grad is None or before.grad is None or torch.equal(leaf.grad, before.grad)
    return same and torch.equal(leaf.detach(), before.detach())


def _as_json(found: Any) -> Any:
    match found:
        case (str(outcome), None | int(_) as step):
            return [outcome[:40], step]
    return None


def in_words(given: Program) -> list[str]:
    """The steps of a program, one to a line."""
    lines, values = [], len(given["leaves"])
    names = [f"{'x' if asks else 'c'}{number}" for number, asks in enumerate(given["leaves"])]
    names += [f"v{values + number}" for number in range(len(given["steps"]))]
    for number, (name, *indices) in enumerate(given["steps"]):
        lines.append(f"    step {number}: {names[values + number]} = {name}({', '.join(names[i] for i in indices)})")
    return lines


def show(case: Case, evidence: Evidence) -> list[Any]:
    """Each program with what was said of it."""
    lines = [f"{case.name}:"]
    for given, answer in zip(case.parameters["programs"], evidence.values["answers"], strict=True):
        said = f"{answer[0]}, step {answer[1]}" if isinstance(answer, list) else answer or "no pair of text and step"
        lines += [f"  your answer: {said}", *in_words(given)]
    return ["\n".join(lines)]

"""The learner's side: the formulas as text, and what the check shows of them."""

from __future__ import annotations

from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u8.tensors import described, made
from fxopt_workbench.internals.formulas import FormulaError
from fxopt_workbench.internals.mirror import BuildError, build, read_operators

MOST_CHARACTERS = 3000
"""Length of the formulas that become evidence."""

ENTRIES = """
- func: softcap(Tensor self, Tensor cap) -> Tensor
  dispatch:
    CPU: softcap_cpu
"""
"""The operator that the formulas are for; here with a kernel of its own, which is enough to differentiate it."""


def inputs(shape: list[int], cap: list[int], seed: int, scale: float = 2.0, caps: float = 2.0) -> dict[str, Any]:
    """Both arguments, in double precision and about as large as `scale` and `caps`, and the seed of what the gradient
    is weighted with.
    """
    x = described(shape, seed, dtype="float64", scale=scale)
    return {"x": x, "cap": described(cap, seed + 1, dtype="float64", scale=caps, positive=True), "weights": seed + 2}


def visible_cases() -> list[Case]:
    """Equal shapes, one cap for all, and numbers far beyond the cap."""
    return [
        Case("equal shapes", inputs([3, 2], [3, 2], 1)),
        Case("one cap for all", inputs([5], [], 4)),
        Case("far beyond the cap", inputs([4], [4], 7, scale=1e4)),
    ]


def arguments(case: Case) -> tuple[torch.Tensor, torch.Tensor]:
    """Both arguments of a case."""
    return made(case.parameters["x"]), made(case.parameters["cap"])


def probe(case: Case, derivatives: Any) -> Evidence:
    """Hand over the text, and the gradients of this case that the built operator gives."""
    text = derivatives()
    if not isinstance(text, str):
        raise TypeError(f"derivatives() must return text, not {type(text).__name__}")
    try:
        gradients = gradients_of(case, text[:MOST_CHARACTERS])
    except (BuildError, NotImplementedError, RuntimeError, ValueError):
        gradients = {}  # the judge finds out why by itself
    return Evidence({"text": text[:MOST_CHARACTERS]}, gradients)


def gradients_of(case: Case, text: str) -> dict[str, torch.Tensor]:
    """The gradients for both arguments, by the operator that the mirror builds with these formulas."""
    with torch.library._scoped_library("fxopt_u8_gradients", "DEF") as library:
        build(library, read_operators(ENTRIES), {"softcap_cpu": _kernel}, text)
        x, cap = (tensor.requires_grad_() for tensor in arguments(case))
        result = torch.ops.fxopt_u8_gradients.softcap(x, cap)
        found = torch.autograd.grad(result, (x, cap), weights(case, result.shape))
    return {"self": found[0].detach(), "cap": found[1].detach()}


def weights(case: Case, shape: torch.Size) -> torch.Tensor:
    """The gradient that comes in."""
    generator = torch.Generator().manual_seed(case.parameters["weights"])
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What torchgen reads in the formulas, and what gradcheck says."""
    lines = [f"{case.name}:"]
    with torch.library._scoped_library("fxopt_u8_formulas", "DEF") as library:
        try:
            found = build(library, read_operators(ENTRIES), {"softcap_cpu": _kernel}, evidence.values["text"])
            one = found.get("softcap")
            if one is not None:
                lines += [f"  the node is called {one.node}; it saves {', '.join(one.saved) or 'nothing'}"]
            x, cap = (tensor.requires_grad_() for tensor in arguments(case))
            operator = torch.ops.fxopt_u8_formulas.softcap
            for name, check in (("gradcheck", torch.autograd.gradcheck), ("twice", torch.autograd.gradgradcheck)):
                lines.append(f"  {name}: {'passed' if check(operator, (x, cap), raise_exception=False) else 'FAILED'}")
        except (BuildError, FormulaError, NotImplementedError, RuntimeError) as error:
            lines.append(f"  {error}")
    return ["\n".join(lines)]


def _kernel(x: torch.Tensor, cap: torch.Tensor) -> torch.Tensor:
    return cap * torch.tanh(x / cap)

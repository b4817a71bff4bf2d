"""What every step of a case comes to in PyTorch."""

from __future__ import annotations

import torch

from autograder.exercises.u1.static_graph.rules import Shape, infer, value
from autograder.exercises.u1.static_graph.visible import Step


def by_pytorch(steps: list[Step], seed: int) -> list[torch.Tensor | None]:
    """The value of every reference on drawn inputs; `None` for what must be refused."""
    generator = torch.Generator().manual_seed(seed)
    found: list[torch.Tensor | None] = []
    for kind, *rest in steps:
        if kind == "call":
            operator, references, shape = rest
            given = [one for one in (found[reference] for reference in references) if one is not None]
            found.append(_called(operator, given, None if shape is None else tuple(shape), generator))
        elif kind == "gradients":
            found += _differentiated(found[rest[0]], [found[one] for one in rest[1]])
    return found


def _called(
    operator: str, given: list[torch.Tensor], shape: Shape | None, drawn: torch.Generator
) -> torch.Tensor | None:
    try:
        wanted = infer(operator, [tuple(one.shape) for one in given], shape)
    except ValueError:
        return None
    if operator == "input":
        return (torch.rand(wanted, generator=drawn, dtype=torch.float64) * 3 - 1.5).requires_grad_()
    return _tracked(value(operator, given, wanted))


def _differentiated(loss: torch.Tensor | None, wanted: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
    if loss is None or loss.shape != ():
        return [None] * len(wanted)
    asked = [one for one in wanted if one is not None]
    found = torch.autograd.grad(loss, asked, create_graph=True, allow_unused=True)
    return [
        _tracked(torch.zeros_like(one) if gradient is None else gradient)
        for one, gradient in zip(asked, found, strict=True)
    ]


def _tracked(tensor: torch.Tensor) -> torch.Tensor:
    """Everything takes part in autograd here, so that a gradient can be asked of every number."""
    return tensor if tensor.requires_grad else tensor.requires_grad_()

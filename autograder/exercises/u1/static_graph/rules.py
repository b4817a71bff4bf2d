"""What the operators of a graph mean: shapes, values, and derivatives with a mistake or without."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Shape = tuple[int, ...]
Node = list[Any]
"""Operator, numbers of inputs, shape."""

FLAWS = ("last path only", "not summed", "sign lost", "relu passes all", "tanh of the input", "factors mixed up")
"""Mistakes in `flawed_gradients`."""

SOURCES = ("input", "ones", "zeros")
"""Operators without inputs."""

INPUTS = {"add": 2, "mul": 2, "matmul": 2} | dict.fromkeys(SOURCES, 0)
"""How many inputs an operator has; the others have one."""

SHAPED = (*SOURCES, "sum_to", "expand")
"""Operators that are given a shape."""

_VALUES: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "mul": torch.mul,
    "neg": torch.neg,
    "matmul": torch.matmul,
    "transpose": torch.t,
    "relu": torch.relu,
    # 1 above 0, else 0; so written it has a derivative, which is 0.
    "step": lambda x: torch.relu(torch.sign(x)),
    "tanh": torch.tanh,
}

OPERATORS = (*_VALUES, *SHAPED)


def infer(operator: str, shapes: Sequence[Shape], shape: Shape | None) -> Shape:
    """The shape of an operator's result.

    Raises:
        ValueError: there is no such operator, or these shapes do not fit.
    """
    if operator not in OPERATORS:
        raise ValueError(f"no operator {operator}")
    if len(shapes) != INPUTS.get(operator, 1) or (shape is None) != (operator not in SHAPED):
        raise ValueError("another number of inputs, or a shape too many or too few")
    if shape is not None and operator in SOURCES:
        return shape
    if operator in ("add", "mul"):
        return _together(*shapes)
    if operator == "matmul":
        if [len(one) for one in shapes] != [2, 2] or shapes[0][1] != shapes[1][0]:
            raise ValueError("no product of two matrices")
        return shapes[0][0], shapes[1][1]
    if operator == "transpose" and len(shapes[0]) != 2:
        raise ValueError("no matrix")
    if shape is not None:
        large, small = (shapes[0], shape) if operator == "sum_to" else (shape, shapes[0])
        if _together(large, small) != large:
            raise ValueError("one cannot be stretched to the other")
        return shape
    return shapes[0][::-1] if operator == "transpose" else shapes[0]


def _together(*shapes: Shape) -> Shape:
    try:
        return tuple(torch.broadcast_shapes(*shapes))
    except RuntimeError:
        raise ValueError("shapes do not fit together") from None


def value(operator: str, inputs: Sequence[torch.Tensor], shape: Shape) -> torch.Tensor:
    """What an operator computes. Inputs of the graph are no operators' business."""
    if operator in ("ones", "zeros"):
        return torch.full(shape, float(operator == "ones"), dtype=torch.float64)
    if operator == "sum_to":
        return inputs[0].sum_to_size(shape)
    if operator == "expand":
        return inputs[0].expand(shape)
    return _VALUES[operator](*inputs)


def flawed_gradients(nodes: Sequence[Node], values: Sequence[torch.Tensor], loss: int, flaw: str) -> dict[int, Any]:
    """First derivatives of a node with respect to all others, as somebody gets them who makes a mistake.

    Raises:
        RuntimeError: with this mistake the shapes do not fit.
    """
    found: dict[int, torch.Tensor] = {loss: torch.ones((), dtype=torch.float64)}
    for number in range(loss, -1, -1):
        if number not in found:
            continue
        operator, inputs, _ = nodes[number]
        given = [values[one] for one in inputs]
        for one, part in zip(inputs, _parts(operator, found[number], given, values[number], flaw), strict=False):
            if operator in ("add", "mul") and flaw != "not summed":
                part = part.sum_to_size(values[one].shape)
            found[one] = part if one not in found or flaw == "last path only" else found[one] + part
    return found


def _parts(
    operator: str, g: torch.Tensor, given: list[torch.Tensor], result: torch.Tensor, flaw: str
) -> tuple[torch.Tensor, ...]:
    match operator:
        case "add":
            return g, g
        case "mul":
            right = (g * given[1], g * given[0])
            return right[::-1] if flaw == "factors mixed up" else right
        case "neg":
            return (g if flaw == "sign lost" else -g,)
        case "matmul":
            return g @ given[1].t(), given[0].t() @ g
        case "transpose":
            return (g.t(),)
        case "relu":
            return (g if flaw == "relu passes all" else g * (given[0] > 0),)
        case "tanh":
            told = given[0] if flaw == "tanh of the input" else result
            return (g * (1 - told * told),)
        case "sum_to":
            return (g.expand(given[0].shape),)
        case "expand":
            return (g.sum_to_size(given[0].shape),)
    return ()

"""The learner's side: shapes and indices, the probe and what the check shows."""

from __future__ import annotations

from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.probing import torch_calls


def visible_cases() -> list[Case]:
    """A matrix and a batch of images, and images in channels-last order."""
    return [
        Case(
            "contiguous",
            {
                "channels_last": False,
                "shapes": [[4, 6], [2, 3, 4, 5], [7]],
                "indices": [[2, 5], [1, 2, 0, 3], [6]],
            },
        ),
        Case(
            "channels last",
            {"channels_last": True, "shapes": [[2, 3, 4, 5], [3, 8, 6, 2]], "indices": [[1, 2, 3, 4], [2, 0, 5, 1]]},
        ),
    ]


def whole_numbers(found: Any) -> list[int] | None:
    """A sequence of whole numbers as a list; `None` where it is none."""
    whole = isinstance(found, (tuple, list)) and all(isinstance(number, int) for number in found)
    return [int(number) for number in found] if whole else None


def probe(case: Case, strides_of: Any, position: Any) -> Evidence:
    """Ask for strides, and for positions under strides that are right, so that one mistake is not counted twice."""
    given = case.parameters
    strides, positions = [], []
    with torch_calls() as called:
        for shape, index in zip(given["shapes"], given["indices"], strict=True):
            strides.append(whole_numbers(strides_of(tuple(shape), given["channels_last"])))
            found = position(tuple(index), right_strides(shape, given["channels_last"]))
            positions.append(int(found) if isinstance(found, int) else None)
    return Evidence({"strides": strides, "positions": positions, "torch_calls": called[:3]})


def right_strides(shape: list[int], channels_last: bool) -> tuple[int, ...]:
    """What PyTorch says, out of sight of the watch for calls."""
    import torch

    with torch._C.DisableTorchFunction():
        made = torch.empty(shape, device="meta")
        if channels_last:
            made = made.contiguous(memory_format=torch.channels_last)
        return tuple(made.stride())


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The shapes and the learner's numbers as a table."""
    lines = [f"{case.name}: your strides and positions", f"  {'shape':16} {'strides':20} {'index':16} position"]
    given, values = case.parameters, evidence.values
    rows = zip(given["shapes"], values["strides"], given["indices"], values["positions"], strict=True)
    lines += [f"  {shape!s:16} {strides!s:20} {index!s:16} {position}" for shape, strides, index, position in rows]
    return ["\n".join(lines)]

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
                "places": [[[2, 5], [6, 1]], [[1, 2, 0, 3], [60, 20, 5, 1]], [[6], [1]]],
            },
        ),
        Case(
            "channels last",
            {
                "channels_last": True,
                "shapes": [[2, 3, 4, 5], [3, 8, 6, 2]],
                "places": [[[1, 2, 3, 4], [60, 1, 15, 3]], [[2, 0, 5, 1], [96, 1, 16, 8]]],
            },
        ),
    ]


def with_layouts(case: Case) -> list[tuple[list[int], bool]]:
    """The shapes of a case, each with whether it is asked for in the channels-last layout."""
    given = case.parameters
    layouts = given.get("layouts", [given["channels_last"]] * len(given["shapes"]))
    return list(zip(given["shapes"], layouts, strict=True))


def whole_numbers(found: Any) -> list[int] | None:
    """A sequence of whole numbers as a list; `None` where it is none."""
    whole = isinstance(found, (tuple, list)) and all(isinstance(number, int) for number in found)
    return [int(number) for number in found] if whole else None


def probe(case: Case, strides_of: Any, position: Any) -> Evidence:
    """Ask for strides, and for positions under given strides, so that one mistake is not counted twice.

    In hidden cases those strides belong to other shapes: they do not give the others away.
    """
    given = case.parameters
    strides, positions = list[Any](), list[Any]()
    with torch_calls() as called:
        for number, (shape, channels_last) in enumerate(with_layouts(case)):
            # A contiguous tensor is the default, for which the argument is left away or said by its name.
            if number % 2:
                found = strides_of(tuple(shape), channels_last=channels_last)
            else:
                found = strides_of(tuple(shape), True) if channels_last else strides_of(tuple(shape))
            strides.append(whole_numbers(found))
        for index, steps in given["places"]:
            found = position(tuple(index), tuple(steps))
            positions.append(int(found) if isinstance(found, int) else None)
    return Evidence({"strides": strides, "positions": positions, "torch_calls": called[:3]})


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The shapes and the learner's numbers as a table."""
    given, values = case.parameters, evidence.values
    lines = [f"{case.name}: your strides and positions", f"  {'shape':16} strides"]
    shapes = zip(given["shapes"], values["strides"], strict=False)
    lines += [f"  {shape!s:16} {strides!s}" for shape, strides in shapes]
    lines.append(f"  {'index':16} {'strides':20} position")
    places = zip(given["places"], values["positions"], strict=False)
    lines += [f"  {index!s:16} {strides!s:20} {position}" for (index, strides), position in places]
    return ["\n".join(lines)]

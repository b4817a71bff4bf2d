"""The learner's side: pairs of views by their numbers, the probe and what the check shows."""

from __future__ import annotations

from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u2.reading import whole_number
from autograder.learner_side.probing import torch_calls

ShortView = list[Any]
"""Sizes, strides and offset, as JSON values."""


def visible_cases() -> list[Case]:
    """Small views that can be drawn, and large ones that cannot be walked through."""
    return [
        Case(
            "columns of a matrix",
            {
                "pairs": [
                    [[[4, 3], [6, 2], 0], [[4, 3], [6, 2], 1]],
                    [[[4, 3], [6, 2], 0], [[4, 3], [6, 2], 2]],
                    [[[5], [2], 0], [[5], [3], 1]],
                    [[[2, 6], [6, 1], 0], [[2, 6], [6, 1], 12]],
                ],
                "views": [[[4, 6], [6, 1], 0], [[3, 4], [1, 1], 0], [[4, 6], [5, 1], 2]],
            },
        ),
        Case(
            "long ones",
            {
                "pairs": [
                    [[[10**9], [6], 0], [[10**9], [4], 1]],
                    [[[10**9], [6], 0], [[10**9], [4], 10**8]],
                    [[[3, 10**9], [1, 3], 0], [[10**9], [5], 3 * 10**9]],
                ],
                "views": [[[10**9, 8], [8, 1], 0], [[10**9, 8], [7, 1], 5], [[8, 10**9], [0, 1], 0]],
            },
        ),
    ]


def as_view(numbers: ShortView) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """A view as the learner's functions take it."""
    sizes, strides, offset = numbers
    return tuple(sizes), tuple(strides), offset


def position(found: Any) -> dict[str, Any]:
    """An answer as evidence: a position, none, or something else."""
    if found is None:
        return {"position": None}
    number = whole_number(found)
    return {"kind": type(found).__name__} if number is None else {"position": number}


def probe(case: Case, common_element: Any, touched_twice: Any) -> Evidence:
    """Ask for a position of each pair, and of each view."""
    with torch_calls() as called:
        pairs = [position(common_element(*map(as_view, pair))) for pair in case.parameters["pairs"]]
        views = [position(touched_twice(as_view(view))) for view in case.parameters["views"]]
    return Evidence({"pairs": pairs, "views": views, "torch_calls": called[:3]})


def show(case: Case, evidence: Evidence) -> list[Any]:
    """Each question with the learner's answer."""
    lines = [f"{case.name}: your positions"]
    for (first, second), found in zip(case.parameters["pairs"], evidence.values["pairs"], strict=True):
        lines.append(f"  {in_words(first)} and {in_words(second)}: {_answer(found)}")
    for view, found in zip(case.parameters["views"], evidence.values["views"], strict=True):
        lines.append(f"  {in_words(view)} twice: {_answer(found)}")
    return ["\n".join(lines)]


def in_words(view: ShortView) -> str:
    """A view for a message."""
    sizes, strides, offset = view
    return f"sizes {sizes} strides {strides} offset {offset}"


def _answer(found: dict[str, Any]) -> str:
    return str(found["position"]) if "position" in found else f"a {found['kind']}"

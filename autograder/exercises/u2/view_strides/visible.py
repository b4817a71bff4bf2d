"""The learner's side: tensors by their sizes and strides, shapes to view them in, the probe and what the check "
"shows."""

from __future__ import annotations

from functools import partial
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u2.reading import ask, geometry
from autograder.learner_side.probing import torch_calls

Request = list[list[int]]
"""Sizes, strides and wanted sizes."""


def visible_cases() -> list[Case]:
    """Contiguous tensors, tensors with gaps, and what must be refused."""
    return [
        Case(
            "contiguous",
            {
                "requests": [
                    [[4, 6], [6, 1], [24]],
                    [[4, 6], [6, 1], [2, 2, 6]],
                    [[4, 6], [6, 1], [3, -1]],
                    [[2, 3, 4], [12, 4, 1], [6, 2, 2]],
                ]
            },
        ),
        Case(
            "gaps and swapped dimensions",
            {
                "requests": [
                    [[4, 6], [12, 2], [24]],
                    [[4, 6], [12, 1], [2, 2, 3, 2]],
                    [[4, 6], [12, 1], [24]],
                    [[6, 4], [1, 6], [6, 2, 2]],
                    [[6, 4], [1, 6], [24]],
                ]
            },
        ),
        Case(
            "not a shape for it",
            {"requests": [[[4, 6], [6, 1], [5, 5]], [[4, 6], [6, 1], [-1, 7]], [[4, 6], [6, 1], [-1, -1]]]},
        ),
    ]


def probe(case: Case, view: Any) -> Evidence:
    """Ask for each view."""

    def answer(request: Request) -> dict[str, Any]:
        sizes, strides, wanted = map(tuple, request)
        return geometry(view(sizes, strides, wanted))

    with torch_calls() as called:
        views = [ask(partial(answer, request)) for request in case.parameters["requests"]]
    return Evidence({"views": views, "torch_calls": called[:3]})


def show(case: Case, evidence: Evidence) -> list[Any]:
    """Each request with the learner's answer."""
    lines = [f"{case.name}: your views"]
    for (sizes, strides, wanted), found in zip(case.parameters["requests"], evidence.values["views"], strict=True):
        answer = (
            f"refused ({found.get('kind', 'ValueError')}): {found['refused']}"
            if "refused" in found
            else f"sizes {found['sizes']}, strides {found['strides']}"
        )
        lines.append(f"  sizes {sizes}, strides {strides} as {wanted}: {answer}")
    return ["\n".join(lines)]

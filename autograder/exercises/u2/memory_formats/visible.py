"""The learner's side: sizes and strides of images and volumes, the probe and what the check shows."""

from __future__ import annotations

from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u2.reading import whole_numbers
from autograder.learner_side.probing import torch_calls


def visible_cases() -> list[Case]:
    """Images and a volume in both formats, and strides that fit both."""
    return [
        Case(
            "images and volumes",
            {
                "shapes": [[2, 3, 4, 5], [2, 3, 4, 5, 6], [1, 8, 2, 2]],
                "tensors": [
                    [[2, 3, 4, 5], [60, 20, 5, 1]],
                    [[2, 3, 4, 5], [60, 1, 15, 3]],
                    [[2, 3, 4, 5, 6], [360, 120, 30, 6, 1]],
                    [[2, 3, 4, 5, 6], [360, 1, 90, 18, 3]],
                    [[2, 3, 4, 5], [120, 20, 5, 2]],
                ],
            },
        ),
        Case(
            "both fit",
            {
                "shapes": [[2, 1, 3, 4], [5, 3, 1, 1]],
                "tensors": [
                    [[2, 1, 3, 4], [12, 1, 4, 1]],
                    [[2, 1, 3, 4], [12, 12, 4, 1]],
                    [[5, 3, 1, 1], [3, 1, 1, 1]],
                    [[5, 3, 1, 1], [3, 1, 3, 3]],
                ],
            },
        ),
    ]


def probe(case: Case, channels_last_strides: Any, formats_that_fit: Any, suggested_format: Any) -> Evidence:
    """Ask for strides of each shape, and for the formats of each pair of sizes and strides."""
    with torch_calls() as called:
        strides = [whole_numbers(channels_last_strides(tuple(shape))) for shape in case.parameters["shapes"]]
        tensors = [(tuple(sizes), tuple(given)) for sizes, given in case.parameters["tensors"]]
        fitting = [names_of(formats_that_fit(*tensor)) for tensor in tensors]
        suggested = [name if isinstance(name := suggested_format(*tensor), str) else None for tensor in tensors]
    return Evidence({"strides": strides, "fitting": fitting, "suggested": suggested, "torch_calls": called[:3]})


def names_of(found: Any) -> list[str] | None:
    """A list or tuple of names as a list; `None` for anything else."""
    if not isinstance(found, (list, tuple)) or not all(isinstance(name, str) for name in found):
        return None
    return [str(name) for name in found]


def show(case: Case, evidence: Evidence) -> list[Any]:
    """Shapes with their strides, then tensors with their formats."""
    lines = [f"{case.name}: channels-last strides"]
    for shape, strides in zip(case.parameters["shapes"], evidence.values["strides"], strict=True):
        lines.append(f"  sizes {shape!s:18} {strides}")
    lines.append(f"{case.name}: formats")
    rows = zip(case.parameters["tensors"], evidence.values["fitting"], evidence.values["suggested"], strict=True)
    for (sizes, strides), fitting, suggested in rows:
        lines.append(f"  sizes {sizes!s:18} strides {strides!s:24} fit {fitting}, suggested {suggested}")
    return ["\n".join(lines)]

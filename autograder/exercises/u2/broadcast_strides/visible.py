"""The learner's side: operands by their sizes and strides, the probe and what the check shows."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u2.reading import ask, whole_numbers
from autograder.learner_side.probing import torch_calls

Operand = list[list[int]]
"""Sizes and strides, as JSON values."""


def visible_cases() -> list[Case]:
    """Operands that go together, and operands that do not."""
    matrix, row, column = [[4, 3], [3, 1]], [[3], [1]], [[4, 1], [1, 1]]
    return [
        Case(
            "together",
            {
                "questions": [
                    [matrix, row],
                    [column, row],
                    [matrix, matrix],
                    [[[2, 4, 3], [12, 1, 4]], [[4, 1], [2, 2]]],
                    [[[5, 1, 3], [3, 3, 1]], [[1, 4, 1], [9, 2, 1]], [[], []]],
                ]
            },
        ),
        Case(
            "not together",
            {
                "questions": [
                    [matrix, [[4], [1]]],
                    [[[2, 4, 3], [12, 3, 1]], [[5, 3], [3, 1]]],
                    [column, [[5, 1], [1, 1]]],
                ]
            },
        ),
    ]


def probe(case: Case, broadcast: Any) -> Evidence:
    """Ask for shape and strides of each list of operands."""

    def answer(operands: list[Operand]) -> dict[str, Any]:
        found = broadcast([(tuple(sizes), tuple(strides)) for sizes, strides in operands])
        if not isinstance(found, (tuple, list)) or len(found) != 2 or not isinstance(found[1], (tuple, list)):
            return {"sizes": None, "strides": None}
        return {"sizes": whole_numbers(found[0]), "strides": [whole_numbers(one) for one in found[1]]}

    with torch_calls() as called:
        answers = [ask(partial(answer, operands)) for operands in case.parameters["questions"]]
    for one in answers:
        if "refused" in one:
            named = re.match(r"dimension (-\d+):", one["refused"])
            one["dimension"] = int(named[1]) if named else None
    return Evidence({"answers": answers, "torch_calls": called[:3]})


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The operands with the learner's answer."""
    lines = [f"{case.name}: your answers"]
    for operands, found in zip(case.parameters["questions"], evidence.values["answers"], strict=True):
        shapes = " and ".join(f"{sizes} strides {strides}" for sizes, strides in operands)
        refused = "refused" in found
        answer = (
            f"refused ({found.get('kind', 'ValueError')}): {found['refused']}"
            if refused
            else f"{found['sizes']}, strides {found['strides']}"
        )
        lines += [f"  {shapes}", f"    {answer}"]
    return ["\n".join(lines)]

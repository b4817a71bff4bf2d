"""What broadcasting gives: asked of PyTorch, on tensors without data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Deviation
from autograder.exercises.u2.broadcast_strides.visible import Operand
from autograder.exercises.u2.reading import OTHER_ERROR, OTHER_ERROR_TOLD

MISCONCEPTIONS = {
    "asked PyTorch": "Your function asks PyTorch. Work it out from the numbers: there is little to it.",
    "not a shape and strides": "Return a shape and a list with the strides of each operand, all of them whole numbers.",
    OTHER_ERROR: OTHER_ERROR_TOLD,
    "lined up at the front": (
        "Shapes line up at their *last* dimensions; the shorter one gets new dimensions in front."
    ),
    "the larger size wins": (
        "Only a size of 1 gives way. With a size of 0 beside it the result has size 0: a maximum would make something "
        "out of nothing. And 2 beside 3 does not go together at all."
    ),
    "did not notice": "These shapes do not go together: two sizes differ, and neither is 1.",
    "refused what fits": "You refused shapes that go together.",
    "dimension not named": ("Begin the message with the dimension, counted from the end: `dimension -2: …`."),
    "wrong dimension": "You named another dimension than the last one that does not go together.",
    "wrong shape": "This is not the common shape.",
    "kept the stride": (
        "A dimension that was stretched needs stride 0: otherwise its second index reads whatever lies behind, which "
        "is another element or none at all."
    ),
    "as if contiguous": (
        "You computed strides anew from sizes. An operand may be transposed or have gaps: dimensions that are not "
        "stretched keep the strides that they came with."
    ),
    "0 for all": "Only dimensions that were stretched have stride 0; the others must still move on.",
    "another order": "The strides come in another order than the operands.",
    "wrong strides": "These are not the strides of the operands in the common shape.",
}

MOST_ORDERED = 4
"""So many operands are tried in every order."""


def hidden_cases(random: Random) -> list[Case]:
    """What is easily forgotten, one case for each kind, then random operands."""
    fixed: dict[str, list[list[Operand]]] = {
        "no dimensions": [
            [[[], []], [[], []]],
            [[[], []], [[2, 3], [3, 1]]],
            [[[4], [2]]],
            [[[1], [1]], [[], []], [[1, 1], [1, 1]]],
        ],
        "no elements": [
            [[[0], [1]], [[1], [1]]],
            [[[3, 1], [1, 1]], [[0], [1]]],
            [[[0, 3], [3, 1]], [[3], [1]]],
            [[[0], [1]], [[3], [1]]],
            [[[2, 0], [1, 1]], [[4, 1], [1, 1]]],
        ],
        "gaps, swapped, expanded": [
            [[[3, 4], [1, 3]], [[4], [5]]],
            [[[3, 4], [0, 2]], [[2, 1, 4], [8, 8, 2]]],
            [[[6, 1, 4], [7, 99, 2]], [[5, 4], [1, 5]], [[6, 5, 1], [0, 6, 0]]],
        ],
        "several do not": [
            [[[2, 3, 4], [12, 4, 1]], [[3, 3, 5], [15, 5, 1]]],
            [[[2, 3, 4], [12, 4, 1]], [[3, 3, 4], [12, 4, 1]]],
            [[[5, 2], [2, 1]], [[4, 2], [2, 1]], [[4, 3], [3, 1]]],
            [[[7, 1, 1], [1, 1, 1]], [[2, 4], [4, 1]], [[3, 4], [4, 1]]],
        ],
        "enormous": [
            [[[2**20, 1], [3, 1]], [[2**20], [5]]],
            [[[2**20], [3]], [[2**20], [5]]],
            [[[1, 2**20], [9, 2]], [[2**20, 1], [2**20, 7]], [[2**18, 1, 1], [1, 1, 1]]],
        ],
    }
    cases = [Case(name, {"questions": questions}) for name, questions in fixed.items()]
    for number in range(3):
        cases.append(Case(f"random {number}", {"questions": [_random(random) for _ in range(10)]}))
    return cases


def _random(random: Random) -> list[Operand]:
    """Two to four operands of a common shape with some dimensions of size 1 or left out; one in four does not fit."""
    shape = [random.choice([1, 2, 3, 4, 5]) for _ in range(random.randint(1, 4))]
    operands = []
    for _ in range(random.randint(2, 4)):
        sizes = [1 if random.random() < 0.4 else size for size in shape[random.randint(0, len(shape)) :]]
        if sizes and random.random() < 0.1:
            sizes[random.randrange(len(sizes))] += random.randint(1, 2)
        strides, step = [0] * len(sizes), random.choice([1, 2])
        for dim in random.sample(range(len(sizes)), len(sizes)):
            strides[dim] = step
            step *= sizes[dim] + random.choice([0, 1])
        operands.append([sizes, strides])
    return operands


def by_pytorch(operands: list[Operand]) -> dict[str, Any] | None:
    """The common shape and the strides; `None` where PyTorch refuses."""
    try:
        found = torch.broadcast_tensors(*(torch.empty_strided(*operand, device="meta") for operand in operands))
    except RuntimeError:
        return None
    return {"sizes": list(found[0].shape), "strides": [list(one.stride()) for one in found]}


def misfit(operands: list[Operand]) -> int | None:
    """The last dimension, counted from the end, in which two sizes differ and neither is 1."""
    for dim in range(-1, -max(len(sizes) for sizes, _ in operands) - 1, -1):
        if len({sizes[dim] for sizes, _ in operands if -dim <= len(sizes)} - {1}) > 1:
            return dim
    return None


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation]:
    """The misconception behind each wrong answer, once each; for wrong strides and refusals, those that fit."""
    said: set[str] = set()
    for operands, found in zip(case.parameters["questions"], evidence.values["answers"], strict=True):
        wanted = by_pytorch(operands)
        name = _difference(operands, wanted, found)
        shapes = " and ".join(f"{sizes} strides {strides}" for sizes, strides in operands)
        figures = f"({shapes}: found {_in_words(found)}, wanted {_right(operands, wanted)})"
        size = sum(len(sizes) for sizes, _ in operands)
        if name == "refused what fits":
            said.add(name)
            yield Deviation(name, ("lined up at the front",) * _misfit_in_front(operands), figures, size)
        elif name == "wrong strides" and wanted is not None:
            said.add(name)
            yield Deviation(name, tuple(_why_these_strides(operands, found, wanted)), figures, size)
        elif name is not None and name not in said:
            said.add(name)
            yield name, figures
    if not said and evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(evidence.values['torch_calls'])})"


def _in_words(found: dict[str, Any]) -> str:
    if "refused" in found:
        return f"{found.get('kind', 'ValueError')} with the message {found['refused'][:60]!r}"
    return f"{found['sizes']}, strides {found['strides']}"


def _right(operands: list[Operand], wanted: dict[str, Any] | None) -> str:
    return f"ValueError for dimension {misfit(operands)}" if wanted is None else _in_words(wanted)


def _difference(operands: list[Operand], wanted: dict[str, Any] | None, found: dict[str, Any]) -> str | None:
    if "refused" in found:
        if wanted is not None:
            return "refused what fits"
        if "kind" in found:
            return OTHER_ERROR
        if found["dimension"] is None:
            return "dimension not named"
        return None if found["dimension"] == misfit(operands) else "wrong dimension"
    if found["sizes"] is None or found["strides"] is None or None in found["strides"]:
        return "not a shape and strides"
    largest = _largest(operands)
    if wanted is None:
        return "the larger size wins" if found["sizes"] == largest else "did not notice"
    if found["sizes"] != wanted["sizes"]:
        return "the larger size wins" if found["sizes"] == largest else "wrong shape"
    if len(found["strides"]) != len(operands) or any(len(one) != len(wanted["sizes"]) for one in found["strides"]):
        return "not a shape and strides"
    if 0 in wanted["sizes"]:
        return None
    return None if _used(found["strides"], wanted) == _used(wanted["strides"], wanted) else "wrong strides"


def _used(strides: list[list[int]], wanted: dict[str, Any]) -> list[list[int]]:
    """Those strides that are ever looked at."""
    used = [dim for dim, size in enumerate(wanted["sizes"]) if size > 1]
    return [[one[dim] for dim in used] for one in strides]


def _misfit_in_front(operands: list[Operand]) -> bool:
    """Whether shapes do not go together when they line up at their first dimensions."""
    rank = max(len(sizes) for sizes, _ in operands)
    return any(len({sizes[dim] for sizes, _ in operands if dim < len(sizes)} - {1}) > 1 for dim in range(rank))


def _largest(operands: list[Operand]) -> list[int]:
    rank = max(len(sizes) for sizes, _ in operands)
    filled = [[1] * (rank - len(sizes)) + sizes for sizes, _ in operands]
    return [max(column) for column in zip(*filled, strict=True)]


def _why_these_strides(operands: list[Operand], found: dict[str, Any], wanted: dict[str, Any]) -> Iterator[str]:
    """The mistakes that would have given these strides of all operands."""
    rank = len(wanted["sizes"])
    kept, fresh, nothing, nothing_else = [], [], [], []
    for (sizes, strides), right in zip(operands, wanted["strides"], strict=True):
        new = rank - len(sizes)
        contiguous = list(torch.empty(sizes, device="meta").stride())
        stretched = [dim < new or sizes[dim - new] != size for dim, size in enumerate(wanted["sizes"])]
        kept.append([0] * new + strides)
        fresh.append([0 if zero else one for zero, one in zip(stretched, [0] * new + contiguous, strict=True)])
        nothing.append([0] * rank)
        nothing_else.append([0] * rank if any(stretched) else right)
    made = {
        "kept the stride": [kept],
        "as if contiguous": [fresh],
        "0 for all": [nothing, nothing_else],
        "another order": [[wanted["strides"][place] for place in order] for order in permutations(range(len(operands)))]
        if len(operands) <= MOST_ORDERED
        else [],
    }
    for name, several in made.items():
        if _used(found["strides"], wanted) in [_used(one, wanted) for one in several]:
            yield name
